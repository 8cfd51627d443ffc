/* Counted checks. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "edbatch.h"

static int passed, failed;

#define CHECK(condition) check((condition) != 0, #condition, __LINE__)
#define IS(call, status) check_status((call), (status), #call, __LINE__)
#define OK(call) IS(call, EDBATCH_OK)
#define LEN(array) (sizeof(array) / sizeof *(array))

static void check(int ok, const char *what, int line) {
    if (ok) { ++passed; return; }
    ++failed;
    printf("FAILED line %d: %s (last error: %s)\n", line, what, edbatch_error_message());
}

static void check_status(edbatch_status got, edbatch_status want, const char *what, int line) {
    if (got == want) { ++passed; return; }
    ++failed;
    printf("FAILED line %d: %s: expected %s, got %s (%s)\n", line, what, edbatch_status_name(want),
           edbatch_status_name(got), edbatch_error_message());
}

/* The network of the tests: see `programs.rs`. */
enum { FEATURE, CLAUSE, SCORE };     /* records */
enum { INFER, RATE };                /* cells: infer(rule; feature, clauses), rate(; clause) */
enum { NUMBERS = 4, STATE = 14 };    /* floats of a feature, and of a clause: two fields */
enum { RULES = 20 };                 /* rows of the table `rule` */
#define AXIOM ((edbatch_value)-1)    /* initial values */
#define ZEROS ((edbatch_value)-2)

static const char *folder;

static edbatch_engine *open_engine(uint32_t threads) {
    edbatch_options options;
    edbatch_engine *engine = NULL;
    OK(edbatch_options_init(&options, sizeof options));
    options.threads = threads;
    OK(edbatch_engine_open(folder, &options, &engine));
    return engine;
}

static edbatch_session *session_of(edbatch_engine *engine, uint64_t limit) {
    edbatch_session *session = NULL;
    OK(edbatch_session_new(engine, limit, &session));
    return session;
}

/* A clause from a rule, a feature and one or two parents. */
static edbatch_value infer(edbatch_session *session, uint32_t rule, edbatch_value feature,
                           edbatch_value a, edbatch_value b) {
    edbatch_value values[3], result = 0;
    values[0] = feature;
    values[1] = a;
    values[2] = b;
    OK(edbatch_session_call(session, INFER, &rule, 1, values, b ? 3 : 2, &result));
    return result;
}

static edbatch_session_statistics statistics(edbatch_session *session) {
    edbatch_session_statistics counts;
    memset(&counts, 0, sizeof counts);
    counts.size = sizeof counts;
    OK(edbatch_session_get_statistics(session, &counts));
    return counts;
}

#endif
