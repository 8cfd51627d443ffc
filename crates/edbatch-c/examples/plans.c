/* Predicts the costs of candidate plans of database queries: `plans NET PLANS`.
 *
 * NET is a folder with a network: cells `scan`, `join` and `other` (a row for the operator; an
 * `estimate` of three floats, and the inputs) and `cost` (of a node), and an initial value that
 * stands for "no input".
 *
 * PLANS has lines of three kinds: `query` begins a query, and `plan` one of its plans. Any other
 * line is a node: its cell, the number of its operator, logarithms of its rows, width and cost, and
 * the positions of its inputs in the plan. The last node of a plan is its root.
 *
 * Plans of a query have many subplans in common. Equal ones are added once. All plans of a query
 * are computed together, and then forgotten. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "edbatch.h"

enum { MOST_INPUTS = 4, MOST_NODES = 1000, MOST_PLANS = 100 };

struct node {
    uint16_t cell;
    uint32_t operator;
    float estimates[3];
    size_t inputs;
    edbatch_value input[MOST_INPUTS], value;
};

struct query {
    size_t number, plans, nodes, different;
    struct node distinct[MOST_NODES];
    edbatch_value cost[MOST_PLANS];
    edbatch_value plan[MOST_NODES]; /* the nodes of the current plan */
    size_t size;
};

static edbatch_session *session;
static uint16_t cells[4], estimate;
static const char *const names[4] = {"scan", "join", "other", "cost"};

static int report(void) {
    fprintf(stderr, "error: %s\n", edbatch_error_message());
    return 1;
}

static int same(const struct node *a, const struct node *b) {
    return a->cell == b->cell && a->operator == b->operator && a->inputs == b->inputs &&
           !memcmp(a->estimates, b->estimates, sizeof a->estimates) &&
           !memcmp(a->input, b->input, a->inputs * sizeof *a->input);
}

/* Adds a node, unless an equal one was added. A program with many nodes takes a hash table. */
static edbatch_status add(struct query *query, struct node *node) {
    ++query->nodes;
    for (size_t i = 0; i < query->different; ++i) {
        if (!same(&query->distinct[i], node)) continue;
        node->value = query->distinct[i].value;
        return EDBATCH_OK;
    }
    edbatch_value of[1 + MOST_INPUTS];
    edbatch_status status = edbatch_session_give(session, estimate, node->estimates, 3, 1, &of[0]);
    if (status) return status;
    of[1] = -1; /* the initial value */
    memcpy(of + 1, node->input, node->inputs * sizeof *of);
    size_t count = 1 + (node->inputs ? node->inputs : 1);
    status = edbatch_session_call(session, node->cell, &node->operator, 1, of, count, &node->value);
    if (!status) query->distinct[query->different++] = *node;
    return status;
}

/* The cost of the current plan, if it has a node. */
static edbatch_status end_plan(struct query *query) {
    if (!query->size) return EDBATCH_OK;
    edbatch_value *root = &query->plan[query->size - 1];
    query->size = 0;
    return edbatch_session_call(session, cells[3], NULL, 0, root, 1, &query->cost[query->plans++]);
}

/* Computes all plans of a query, prints the cheapest, and forgets them. */
static edbatch_status end_query(struct query *query) {
    float costs[MOST_PLANS];
    size_t best = 0;
    edbatch_status status = end_plan(query);
    if (status || !query->plans) return status;
    if ((status = edbatch_session_run(session)) ||
        (status = edbatch_session_fetch(session, query->cost, query->plans, costs, MOST_PLANS,
                                        NULL))) return status;
    for (size_t i = 1; i < query->plans; ++i) if (costs[i] < costs[best]) best = i;
    printf("query %zu: %zu plans, %zu nodes, %zu of them different: plan %zu is the cheapest, %g\n",
           query->number, query->plans, query->nodes, query->different, best + 1, costs[best]);
    query->plans = query->nodes = query->different = 0;
    return edbatch_session_clear(session);
}

/* Reads a node. Returns 0 if the line is none. */
static int parse(char *line, const struct query *query, struct node *node) {
    char name[16], *at, *end;
    int used = 0, cell = 0;
    memset(node, 0, sizeof *node);
    if (sscanf(line, "%15s %u %f %f %f %n", name, &node->operator, &node->estimates[0],
               &node->estimates[1], &node->estimates[2], &used) != 5) return 0;
    while (cell < 3 && strcmp(name, names[cell])) ++cell;
    node->cell = cells[cell];
    for (at = line + used; *at; at = end + strspn(end, " \r\n")) {
        size_t input = strtoul(at, &end, 10);
        if (end == at || input >= query->size || node->inputs == MOST_INPUTS) return 0;
        node->input[node->inputs++] = query->plan[input];
    }
    return cell < 3 && query->different < MOST_NODES && query->size < MOST_NODES;
}

int main(int argc, char **argv) {
    static struct query query;
    edbatch_engine *engine = NULL;
    FILE *file = argc < 3 ? NULL : fopen(argv[2], "r");
    if (!file) {
        if (argc > 2 && !file) perror(argv[2]);
        else fprintf(stderr, "usage: %s NET PLANS\n", argv[0]);
        return 2;
    }
    if (edbatch_engine_open(argv[1], NULL, &engine) || edbatch_session_new(engine, 0, &session) ||
        edbatch_engine_record(engine, "estimate", &estimate)) return report();
    for (int i = 0; i < 4; ++i) {
        if (edbatch_engine_cell(engine, names[i], &cells[i])) return report();
    }
    char line[256];
    for (size_t number = 1; fgets(line, sizeof line, file); ++number) {
        struct node node;
        if (!strncmp(line, "query", 5)) {
            if (end_query(&query)) return report();
            ++query.number;
        } else if (!strncmp(line, "plan", 4)) {
            if (query.plans == MOST_PLANS - 1 || end_plan(&query)) return report();
        } else if (!parse(line, &query, &node)) {
            fprintf(stderr, "line %zu: expected query, plan or a node\n", number);
            return 1;
        } else {
            if (add(&query, &node)) return report();
            query.plan[query.size++] = node.value;
        }
    }
    if (end_query(&query)) return report();
    edbatch_session_free(session);
    edbatch_engine_free(engine);
    fclose(file);
    return 0;
}
