/* What the header promises, with valid arguments: `interface NET_FOLDER`. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static const float numbers[2 * NUMBERS] = {0.5f, -1, 2, 0.25f, 1, 1, -0.5f, 3};

/* Two given features, a chain of clauses with one or two parents, and their scores. */
enum { CHAIN = 9, CALLS = 2 * CHAIN };

struct input {
    uint16_t cells[CALLS], records[2];
    int32_t operands[5 * CALLS], emit[CHAIN];
    uint32_t offsets[CALLS + 1];
    edbatch_calls calls;
};

static void make_input(struct input *in) {
    uint32_t used = 0;
    memset(in, 0, sizeof *in);
    for (int i = 0; i < CALLS; ++i) {
        in->cells[i] = i % 2 ? RATE : INFER;
        if (i % 2) {
            in->operands[used++] = 2 + i - 1;
        } else {
            in->operands[used++] = i % RULES;
            in->operands[used++] = i % 4 / 2;
            in->operands[used++] = i < 2 ? -1 : 2 + i - 2;
            if (i >= 4) in->operands[used++] = 2 + i - 4;
        }
        in->offsets[i + 1] = used;
    }
    for (int i = 0; i < CHAIN; ++i) in->emit[i] = 2 + 2 * i + 1;
    in->emit[0] = 2; /* a clause, of another width */
    in->calls.calls = CALLS;
    in->calls.cells = in->cells;
    in->calls.operands = in->operands;
    in->calls.operand_count = used;
    in->calls.offsets = in->offsets;
    in->calls.emits = CHAIN;
    in->calls.emit = in->emit;
    in->calls.gives = 2;
    in->calls.give_records = in->records; /* FEATURE */
    in->calls.give_elements = numbers;
    in->calls.give_floats = LEN(numbers);
}
enum { FLOATS = STATE + CHAIN - 1 };

/* The same input in a session, `wave` clauses a run. */
static void replay(edbatch_session *session, int wave, float *out) {
    edbatch_value given[2], clauses[CHAIN], scores[CHAIN];
    size_t needed = 0;
    OK(edbatch_session_give(session, FEATURE, numbers, LEN(numbers), 2, given));
    for (int i = 0; i < CHAIN; ++i) {
        edbatch_value parent = i ? clauses[i - 1] : AXIOM;
        clauses[i] = infer(session, (uint32_t)(2 * i) % RULES, given[i % 2], parent,
                           i > 1 ? clauses[i - 2] : 0);
        OK(edbatch_session_call(session, RATE, NULL, 0, &clauses[i], 1, &scores[i]));
        if ((i + 1) % wave == 0) OK(edbatch_session_run(session));
    }
    OK(edbatch_session_run(session));
    scores[0] = clauses[0];
    OK(edbatch_session_fetch(session, scores, CHAIN, out, FLOATS, &needed));
    CHECK(needed == FLOATS);
}

static void inputs_and_sessions_have_the_same_bits(void) {
    static float want[2 * FLOATS], got[4 * FLOATS];
    struct input in;
    edbatch_calls four[4];
    size_t needed = 0;
    edbatch_engine *engine = open_engine(1), *team = open_engine(2), *fork = NULL;
    make_input(&in);
    for (int i = 0; i < 4; ++i) four[i] = in.calls;
    IS(edbatch_run(engine, four, 1, NULL, 0, &needed), EDBATCH_ERROR_BUFFER);
    CHECK(needed == FLOATS);
    OK(edbatch_run(engine, four, 1, want, FLOATS, NULL));
    CHECK(want[0] != 0 && want[FLOATS - 1] != 0);
    OK(edbatch_engine_fork(team, &fork));
    edbatch_engine *const all[] = {engine, team, fork};
    for (size_t e = 0; e < LEN(all); ++e) {
        OK(edbatch_run(all[e], four, 4, got, LEN(got), &needed));
        CHECK(needed == 4 * FLOATS);
        for (int i = 0; i < 4; ++i) CHECK(!memcmp(want, got + i * FLOATS, FLOATS * sizeof *got));
        for (int wave = 1; wave <= CHAIN + 1; ++wave) {
            edbatch_session *session = session_of(all[e], 0), *empty = NULL;
            memset(got, 0, sizeof got);
            replay(session, wave, got);
            CHECK(!memcmp(want, got, FLOATS * sizeof *got));
            CHECK(statistics(session).stored == CALLS + 2);
            OK(edbatch_session_fork(session, &empty));
            CHECK(statistics(empty).stored == 0);
            edbatch_session_free(session);
            replay(empty, wave, got + FLOATS);
            CHECK(!memcmp(want, got + FLOATS, FLOATS * sizeof *got));
            edbatch_session_free(empty);
        }
    }
    /* No inputs, and an input without anything. */
    OK(edbatch_run(engine, NULL, 0, NULL, 0, &needed));
    CHECK(needed == 0);
    memset(four, 0, sizeof four);
    OK(edbatch_run(engine, four, 3, NULL, 0, &needed));
    CHECK(needed == 0);
    edbatch_engine_free(engine);
    edbatch_engine_free(team);
    edbatch_engine_free(fork);
}

static void arrays_are_added_whole_or_not_at_all(void) {
    edbatch_engine *engine = open_engine(1);
    edbatch_session *session = session_of(engine, 0);
    const uint16_t cells[3] = {INFER, INFER, RATE};
    int64_t operands[] = {3, ZEROS, AXIOM, 4, ZEROS, 0, AXIOM, 1};
    const uint32_t offsets[4] = {0, 3, 7, 8};
    edbatch_value results[3] = {7, 7, 7};
    float one[1], other[1];
    operands[7] = 2; /* itself */
    IS(edbatch_session_calls(session, 3, cells, operands, 8, offsets, results), EDBATCH_ERROR_CALL);
    operands[7] = -3; /* there are two initial values */
    IS(edbatch_session_calls(session, 3, cells, operands, 8, offsets, results), EDBATCH_ERROR_VALUE);
    CHECK(results[0] == 7 && results[2] == 7 && statistics(session).pending == 0);
    operands[7] = 1;
    OK(edbatch_session_calls(session, 3, cells, operands, 8, offsets, results));
    CHECK(statistics(session).pending == 3);
    edbatch_value a = infer(session, 3, ZEROS, AXIOM, 0), b = infer(session, 4, ZEROS, a, AXIOM), c;
    OK(edbatch_session_call(session, RATE, NULL, 0, &b, 1, &c));
    OK(edbatch_session_run(session));
    OK(edbatch_session_fetch(session, &results[2], 1, one, 1, NULL));
    OK(edbatch_session_fetch(session, &c, 1, other, 1, NULL));
    CHECK(!memcmp(one, other, sizeof one));
    OK(edbatch_session_calls(session, 0, NULL, NULL, 0, NULL, NULL));
    /* A result may replace an operand. */
    OK(edbatch_session_call(session, RATE, NULL, 0, &b, 1, &b));
    edbatch_session_free(session);
    edbatch_engine_free(engine);
}

static void limits_are_errors_that_change_nothing(void) {
    edbatch_engine *engine = open_engine(1);
    edbatch_session *session = session_of(engine, 0);
    edbatch_value kept = infer(session, 1, ZEROS, AXIOM, 0), last = kept;
    float before[STATE], after[STATE];
    OK(edbatch_session_run(session));
    uint64_t limit = statistics(session).weight_bytes + 4096;
    edbatch_session_free(session);
    session = session_of(engine, limit);
    kept = last = infer(session, 1, ZEROS, AXIOM, 0);
    OK(edbatch_session_run(session));
    OK(edbatch_session_fetch(session, &kept, 1, before, STATE, NULL));
    for (int i = 0; i < 200; ++i) last = infer(session, 2, ZEROS, last, 0);
    IS(edbatch_session_run(session), EDBATCH_ERROR_MEMORY);
    CHECK(statistics(session).pending == 200 && statistics(session).stored == 1);
    OK(edbatch_session_discard(session));
    IS(edbatch_session_release(session, &last, 1), EDBATCH_ERROR_VALUE);
    OK(edbatch_session_fetch(session, &kept, 1, after, STATE, NULL));
    CHECK(!memcmp(before, after, sizeof before));
    last = infer(session, 2, ZEROS, kept, 0);
    OK(edbatch_session_run(session));
    CHECK(statistics(session).stored == 2 && statistics(session).runs == 2);
    OK(edbatch_session_clear(session));
    IS(edbatch_session_fetch(session, &kept, 1, after, STATE, NULL), EDBATCH_ERROR_VALUE);
    edbatch_session_free(session);
    edbatch_engine_free(engine);
}

static float of_thread[FLOATS];

static void *replay_in_a_thread(void *session) {
    for (int i = 0; i < 50; ++i) {
        OK(edbatch_session_clear(session));
        replay(session, 1 + i % 5, of_thread);
    }
    return NULL;
}

/* Sessions and forks are made while a session runs. */
static void const_functions_do_not_disturb_a_running_session(void) {
    struct input in;
    static float want[FLOATS];
    edbatch_engine *engine = open_engine(1);
    edbatch_session *session = session_of(engine, 0);
    pthread_t thread;
    make_input(&in);
    OK(edbatch_run(engine, &in.calls, 1, want, FLOATS, NULL));
    CHECK(!pthread_create(&thread, NULL, replay_in_a_thread, session));
    for (int i = 0; i < 50; ++i) {
        edbatch_session *fork = NULL, *other = NULL;
        uint16_t cell = 9;
        /* The counters of the checks belong to the other thread meanwhile. */
        if (edbatch_session_fork(session, &fork) || edbatch_session_new(engine, 0, &other) ||
            edbatch_engine_cell(engine, "rate", &cell) || cell != RATE) abort();
        edbatch_session_free(fork);
        edbatch_session_free(other);
    }
    CHECK(!pthread_join(thread, NULL));
    CHECK(!memcmp(want, of_thread, sizeof want));
    edbatch_session_free(session);
    edbatch_engine_free(engine);
}

static void engines_with_threads_end_in_a_forked_process(void) {
    edbatch_engine *alone = open_engine(1), *team = open_engine(2);
    edbatch_engine *freed = open_engine(2);
    edbatch_session *session = session_of(team, 0), *single = session_of(alone, 0);
    edbatch_session *last = session_of(freed, 0); /* it alone has its threads */
    uint16_t cell;
    int status = -1;
    edbatch_engine_free(freed);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        edbatch_session *other = NULL;
        alarm(60); /* ends a child that waits for threads of its parent */
        IS(edbatch_run(team, NULL, 0, NULL, 0, NULL), EDBATCH_ERROR_ARGUMENT);
        CHECK(strstr(edbatch_error_message(), "forked") != NULL);
        IS(edbatch_session_run(session), EDBATCH_ERROR_ARGUMENT);
        IS(edbatch_session_fork(session, &other), EDBATCH_ERROR_ARGUMENT);
        IS(edbatch_engine_cell(team, "infer", &cell), EDBATCH_ERROR_ARGUMENT);
        OK(edbatch_run(alone, NULL, 0, NULL, 0, NULL));
        infer(single, 1, ZEROS, AXIOM, 0);
        OK(edbatch_session_run(single));
        edbatch_session_free(session);
        edbatch_session_free(last);
        edbatch_engine_free(team);
        fflush(stdout);
        _exit(failed != 0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    edbatch_session_free(session);
    edbatch_session_free(last);
    edbatch_session_free(single);
    edbatch_engine_free(alone);
    edbatch_engine_free(team);
}

static void sessions_outlive_their_engine(void) {
    edbatch_engine *engine = open_engine(2);
    edbatch_session *session = session_of(engine, 0);
    float out[FLOATS];
    edbatch_engine_free(engine);
    replay(session, 2, out);
    edbatch_session_free(session);
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    folder = argv[1];
    CHECK(edbatch_abi_version() == EDBATCH_ABI_VERSION && *edbatch_error_message() == 0);
    inputs_and_sessions_have_the_same_bits();
    arrays_are_added_whole_or_not_at_all();
    limits_are_errors_that_change_nothing();
    const_functions_do_not_disturb_a_running_session();
    engines_with_threads_end_in_a_forked_process();
    sessions_outlive_their_engine();
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
