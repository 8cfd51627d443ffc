/* Replays the derivation of a prover, and scores each clause: `prover NET DERIVATION [WAVE]`.
 *
 * NET is a folder with a network: cells `infer` (a row for the rule; a `feature` of four floats, and
 * the parents) and `score` (of a clause), and an initial value that stands for "no parent".
 *
 * DERIVATION has a clause a line, with columns that a tab separates: the name of the rule; the
 * parents, as numbers of earlier lines from 0, separated by commas; four numbers; a column that is
 * not read; and the last line that has the clause as a parent.
 *
 * WAVE clauses are added before they are computed together. No bit of a score depends on it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "edbatch.h"

enum { MOST_PARENTS = 16, MOST_RULES = 32, NUMBERS = 4 };

struct clause {
    uint32_t rule, last; /* `last` line that reads the clause */
    size_t parents[MOST_PARENTS], parent_count;
    float numbers[NUMBERS];
    edbatch_value value, score;
};

static int report(void) {
    fprintf(stderr, "error: %s\n", edbatch_error_message());
    return 1;
}

/* Rules are numbered as they first appear. */
static uint32_t number_of(const char *rule) {
    static char names[MOST_RULES][16];
    uint32_t number = 0;
    while (number < MOST_RULES - 1 && names[number][0] && strncmp(names[number], rule, 15)) ++number;
    strncpy(names[number], rule, 15);
    return number;
}

/* Reads a line. Returns 0 if it is no clause, or if a parent does not exist. */
static int parse(char *line, size_t number, struct clause *clause) {
    char *columns[5] = {line}, *end;
    for (int i = 1; i < 5; ++i) {
        if (!(columns[i] = strchr(columns[i - 1], '\t'))) return 0;
        *columns[i]++ = 0;
    }
    clause->rule = number_of(columns[0]);
    clause->parent_count = 0;
    for (char *at = columns[1]; *at; at = *end ? end + 1 : end) {
        size_t parent = strtoul(at, &end, 10);
        if (end == at || parent >= number || clause->parent_count == MOST_PARENTS) return 0;
        clause->parents[clause->parent_count++] = parent;
    }
    char *at = columns[2];
    for (int i = 0; i < NUMBERS; ++i) clause->numbers[i] = strtof(at, &at) / 10;
    clause->last = (uint32_t)strtoul(columns[4], NULL, 10);
    return 1;
}

/* Adds a clause and its score. Both are computed by the next run. */
static edbatch_status add(edbatch_session *session, const uint16_t cells[2], uint16_t feature,
                          const struct clause *all, struct clause *clause) {
    edbatch_value of[1 + MOST_PARENTS];
    size_t count = 1;
    edbatch_status status =
        edbatch_session_give(session, feature, clause->numbers, NUMBERS, 1, &of[0]);
    if (status) return status;
    for (size_t i = 0; i < clause->parent_count; ++i) {
        of[count++] = all[clause->parents[i]].value;
    }
    if (count == 1) of[count++] = -1; /* the initial value */
    if ((status = edbatch_session_call(session, cells[0], &clause->rule, 1, of, count,
                                       &clause->value)) ||
        (status = edbatch_session_call(session, cells[1], NULL, 0, &clause->value, 1,
                                       &clause->score))) return status;
    return edbatch_session_release(session, of, 1); /* no other clause reads the feature */
}

/* Computes a wave, prints the scores, and releases what no later clause reads. */
static edbatch_status finish(edbatch_session *session, struct clause *all, size_t first,
                             size_t end, unsigned char *released) {
    edbatch_status status = edbatch_session_run(session);
    for (size_t i = first; !status && i < end; ++i) {
        float score;
        status = edbatch_session_fetch(session, &all[i].score, 1, &score, 1, NULL);
        if (!status) status = edbatch_session_release(session, &all[i].score, 1);
        if (!status) printf("clause %zu: %.9g\n", i, score);
    }
    for (size_t i = 0; !status && i < end; ++i) {
        if (released[i] || all[i].last >= end) continue;
        released[i] = 1;
        status = edbatch_session_release(session, &all[i].value, 1);
    }
    return status;
}

int main(int argc, char **argv) {
    FILE *file = argc < 3 ? NULL : fopen(argv[2], "r");
    size_t wave = argc > 3 ? strtoul(argv[3], NULL, 10) : 64;
    if (!file || !wave) {
        if (argc > 2 && !file) perror(argv[2]);
        else fprintf(stderr, "usage: %s NET DERIVATION [WAVE]\n", argv[0]);
        return 2;
    }
    edbatch_engine *engine = NULL;
    edbatch_session *session = NULL;
    uint16_t cells[2], feature;
    if (edbatch_engine_open(argv[1], NULL, &engine) ||
        edbatch_session_new(engine, (uint64_t)2 << 30, &session) ||
        edbatch_engine_cell(engine, "infer", &cells[0]) ||
        edbatch_engine_cell(engine, "score", &cells[1]) ||
        edbatch_engine_record(engine, "feature", &feature)) return report();

    struct clause *all = NULL;
    unsigned char *released = NULL;
    size_t count = 0, first = 0;
    char line[1024];
    while (fgets(line, sizeof line, file)) {
        all = realloc(all, (count + 1) * sizeof *all);
        released = realloc(released, count + 1);
        if (!all || !released) return 1;
        released[count] = 0;
        if (!parse(line, count, &all[count])) {
            fprintf(stderr, "line %zu: expected a clause\n", count + 1);
            return 1;
        }
        if (add(session, cells, feature, all, &all[count])) return report();
        if (++count - first < wave) continue;
        if (finish(session, all, first, count, released)) return report();
        first = count;
    }
    if (first < count && finish(session, all, first, count, released)) return report();

    edbatch_session_statistics counts;
    counts.size = sizeof counts;
    if (edbatch_session_get_statistics(session, &counts)) return report();
    printf("%zu clauses in %u runs, %u values stored\n", count, (unsigned)counts.runs,
           (unsigned)counts.stored);
    edbatch_session_free(session);
    edbatch_engine_free(engine);
    free(all);
    free(released);
    fclose(file);
    return 0;
}
