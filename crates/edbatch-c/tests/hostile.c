/* Invalid arguments: each is an error, and changes nothing. `hostile NET_FOLDER`. */
#include "check.h"

static edbatch_engine *engine;
static edbatch_session *session;
static uint64_t words[64]; /* for pointers that are not aligned */
#define ODD(type) ((type *)(void *)((char *)words + 1))

#define ARGUMENT EDBATCH_ERROR_ARGUMENT
#define CALL EDBATCH_ERROR_CALL
#define HUGE (SIZE_MAX / 2)

static void opens(edbatch_options options, edbatch_status status) {
    edbatch_engine *opened = (edbatch_engine *)(void *)words;
    IS(edbatch_engine_open(folder, &options, &opened), status);
    CHECK(opened == NULL && *edbatch_error_message() != 0);
}

static void options(void) {
    edbatch_options o, p;
    OK(edbatch_options_init(&o, sizeof o));
    CHECK(o.size == sizeof o && o.threads == 1 && o.precision == EDBATCH_F32 && !o.device);
    CHECK(o.memory_limit == 0 && o.fold_tables == 0);
    IS(edbatch_options_init(NULL, sizeof o), ARGUMENT);
    IS(edbatch_options_init(ODD(edbatch_options), sizeof o), ARGUMENT);
    IS(edbatch_options_init(&o, 8), ARGUMENT);
    IS(edbatch_options_init(&o, 5000), ARGUMENT);
    p = o, p.size = 8, opens(p, ARGUMENT);
    p = o, p.threads = 0, opens(p, ARGUMENT);
    p = o, p.threads = 1001, opens(p, ARGUMENT);
    p = o, p.precision = 3, opens(p, ARGUMENT);
    p = o, p.precision = EDBATCH_TF32, opens(p, ARGUMENT);
    p = o, p.device = "tpu", opens(p, ARGUMENT);
    p = o, p.device = "cuda:", opens(p, ARGUMENT);
    p = o, p.device = "cuda:+1", opens(p, ARGUMENT);
    p = o, p.device = "cpu\xff", opens(p, ARGUMENT);
    p = o, p.device = "cuda:9999", opens(p, EDBATCH_ERROR_DEVICE);
    p = o, p.threads = 2, p.memory_limit = 1 << 30, opens(p, ARGUMENT);
    p = o, p.memory_limit = 10, p.fold_tables = 11, opens(p, ARGUMENT);
    edbatch_engine *opened = NULL;
    p = o, p.precision = EDBATCH_BF16, p.device = "cpu", p.fold_tables = 1 << 20;
    OK(edbatch_engine_open(folder, &p, &opened));
    edbatch_engine_free(opened);
}

static void opening(void) {
    edbatch_engine *opened = (edbatch_engine *)(void *)words;
    IS(edbatch_engine_open("/nowhere/x", NULL, &opened), EDBATCH_ERROR_FILE);
    CHECK(opened == NULL && strstr(edbatch_error_message(), "/nowhere/x"));
    IS(edbatch_engine_open("\xff", NULL, &opened), ARGUMENT);
    IS(edbatch_engine_open(NULL, NULL, &opened), ARGUMENT);
    IS(edbatch_engine_open(folder, NULL, NULL), ARGUMENT);
    IS(edbatch_engine_open(folder, NULL, ODD(edbatch_engine *)), ARGUMENT);
    IS(edbatch_engine_open(folder, ODD(edbatch_options), &opened), ARGUMENT);
    IS(edbatch_engine_open_memory("{}", 2, "", 0, NULL, &opened), EDBATCH_ERROR_FILE);
    IS(edbatch_engine_open_memory("\xff", 1, "", 0, NULL, &opened), EDBATCH_ERROR_FILE);
    IS(edbatch_engine_open_memory(NULL, 2, "", 0, NULL, &opened), ARGUMENT);
    IS(edbatch_engine_open_memory("{}", SIZE_MAX, "", 0, NULL, &opened), ARGUMENT);
    CHECK(opened == NULL);
    IS(edbatch_engine_fork(NULL, &opened), ARGUMENT);
    IS(edbatch_engine_fork(engine, NULL), ARGUMENT);
    edbatch_session *made = (edbatch_session *)(void *)words;
    IS(edbatch_session_new(NULL, 0, &made), ARGUMENT);
    CHECK(made == NULL);
    IS(edbatch_session_new(ODD(edbatch_engine), 0, &made), ARGUMENT);
    IS(edbatch_session_new(engine, 0, NULL), ARGUMENT);
    IS(edbatch_session_fork(NULL, &made), ARGUMENT);
    IS(edbatch_session_fork(session, NULL), ARGUMENT);
    edbatch_engine_free(NULL);
    edbatch_session_free(NULL);
}

static void names(void) {
    uint16_t n = 77;
    size_t width = 77;
    IS(edbatch_engine_cell(engine, "none", &n), EDBATCH_ERROR_NAME);
    CHECK(strstr(edbatch_error_message(), "infer, rate") != NULL);
    IS(edbatch_engine_cell(engine, "", &n), EDBATCH_ERROR_NAME);
    IS(edbatch_engine_cell(engine, "\xc3", &n), ARGUMENT);
    IS(edbatch_engine_cell(engine, NULL, &n), ARGUMENT);
    IS(edbatch_engine_cell(NULL, "infer", &n), ARGUMENT);
    IS(edbatch_engine_cell(engine, "infer", NULL), ARGUMENT);
    IS(edbatch_engine_cell(engine, "infer", ODD(uint16_t)), ARGUMENT);
    IS(edbatch_engine_record(engine, "none", &n), EDBATCH_ERROR_NAME);
    IS(edbatch_engine_cell_record(engine, 2, &n), EDBATCH_ERROR_NAME);
    IS(edbatch_engine_width(engine, 3, &width), EDBATCH_ERROR_NAME);
    IS(edbatch_engine_width(engine, 0, NULL), ARGUMENT);
    CHECK(n == 77 && width == 77);
    OK(edbatch_engine_cell(engine, "rate", &n));
    CHECK(n == RATE);
    OK(edbatch_engine_record(engine, "clause", &n));
    CHECK(n == CLAUSE);
    OK(edbatch_engine_cell_record(engine, RATE, &n));
    CHECK(n == SCORE);
    OK(edbatch_engine_width(engine, CLAUSE, &width));
    CHECK(width == STATE);
}

/* Runs a valid input and one that is not. */
static void runs(edbatch_calls input, edbatch_status status) {
    float out[64] = {7};
    size_t needed = 77;
    edbatch_calls two[2];
    memset(two, 0, sizeof two);
    two[1] = input;
    IS(edbatch_run(engine, two, 2, out, LEN(out), &needed), status);
    CHECK(out[0] == 7 && needed == 77);
    CHECK(strncmp(edbatch_error_message(), "input 1: ", 9) == 0);
}

static void inputs(void) {
    static const uint16_t cells[2] = {INFER, RATE}, records[1] = {FEATURE}, no[1] = {9};
    static const int32_t operands[5] = {3, 0, -1, 1, 1}, emit[1] = {2};
    static const uint32_t offsets[3] = {0, 3, 4};
    static const float elements[NUMBERS + 1] = {1, 2, 3, 4, 5};
    const edbatch_calls good = {2, cells, operands, 4, offsets, 1, emit,
                                1, records, elements, NUMBERS};
    float out[1];
    OK(edbatch_run(engine, &good, 1, out, 1, NULL));
    edbatch_calls c;
    int32_t o[5];
    uint32_t at[3];
    c = good, c.cells = NULL, runs(c, ARGUMENT);
    c = good, c.cells = ODD(uint16_t), runs(c, ARGUMENT);
    c = good, c.calls = SIZE_MAX, runs(c, ARGUMENT);
    c = good, c.calls = HUGE, runs(c, ARGUMENT);
    c = good, c.operands = NULL, runs(c, ARGUMENT);
    c = good, c.operand_count = SIZE_MAX, runs(c, ARGUMENT);
    c = good, c.offsets = NULL, runs(c, ARGUMENT);
    c = good, c.emit = NULL, runs(c, ARGUMENT);
    c = good, c.emits = HUGE, runs(c, ARGUMENT);
    c = good, c.give_records = NULL, runs(c, ARGUMENT);
    c = good, c.give_elements = ODD(float), runs(c, ARGUMENT);
    c = good, c.gives = SIZE_MAX, runs(c, ARGUMENT);
    c = good, c.cells = no, c.calls = 1, c.operand_count = 3, runs(c, CALL);
    c = good, c.give_records = no, runs(c, CALL);
    c = good, c.give_floats = NUMBERS - 1, runs(c, CALL);
    c = good, c.give_floats = NUMBERS + 1, runs(c, CALL);
    c = good, c.gives = 0, runs(c, CALL);
    c = good, c.operand_count = 3, runs(c, CALL);
    c = good, c.operand_count = 5, runs(c, CALL);
    c = good, c.calls = 0, runs(c, CALL);
    for (int i = 0; i < 4; ++i) {
        /* No such row; records that do not fit; numbers of no value, or of a later one. */
        static const int32_t wrong[4][4] = {
            {-1, RULES, INT32_MAX, INT32_MIN}, {-1, 1, 9, -3}, {-2, 0, 1, 2}, {0, -2, 2, 3}};
        for (int k = 0; k < 4; ++k) {
            memcpy(o, operands, sizeof o);
            o[i] = wrong[i][k];
            c = good, c.operands = o, runs(c, CALL);
        }
    }
    for (int i = 0; i < 3; ++i) {
        static const uint32_t wrong[3] = {1, 5, UINT32_MAX};
        memcpy(at, offsets, sizeof at);
        at[i] = wrong[i];
        c = good, c.offsets = at, runs(c, CALL);
    }
    static const int32_t none[1] = {3};
    c = good, c.emit = none, runs(c, CALL);
    IS(edbatch_run(engine, NULL, 1, out, 1, NULL), ARGUMENT);
    IS(edbatch_run(engine, &good, SIZE_MAX, out, 1, NULL), ARGUMENT);
    IS(edbatch_run(engine, &good, 1, NULL, 1, NULL), ARGUMENT);
    IS(edbatch_run(engine, &good, 1, out, SIZE_MAX, NULL), ARGUMENT);
    IS(edbatch_run(engine, &good, 1, out, 1, ODD(size_t)), ARGUMENT);
    IS(edbatch_run(NULL, &good, 1, out, 1, NULL), ARGUMENT);
}

static void session_calls(void) {
    uint32_t row = 1, bad_row = RULES;
    edbatch_value values[3] = {ZEROS, AXIOM, AXIOM}, result = 7;
    float elements[2 * NUMBERS] = {0};
    edbatch_value results[2] = {7, 7};
#define ADD(cell, rows, row_count, values, count) \
    edbatch_session_call(session, cell, rows, row_count, values, count, &result)
    IS(ADD(9, &row, 1, values, 2), CALL);
    IS(ADD(INFER, &bad_row, 1, values, 2), CALL);
    IS(ADD(INFER, &row, 0, values, 2), CALL);
    IS(ADD(INFER, &row, 1, values, 1), CALL);
    IS(ADD(RATE, &row, 1, values + 1, 1), CALL);
    IS(ADD(RATE, NULL, 0, values, 1), CALL); /* of another record */
    IS(ADD(INFER, NULL, 1, values, 2), ARGUMENT);
    IS(ADD(INFER, &row, 1, NULL, 2), ARGUMENT);
    IS(ADD(INFER, &row, SIZE_MAX, values, 2), ARGUMENT);
    IS(ADD(INFER, &row, 1, values, HUGE), ARGUMENT);
    IS(ADD(INFER, &row, 1, ODD(edbatch_value), 2), ARGUMENT);
    values[1] = 12345;
    IS(ADD(INFER, &row, 1, values, 2), EDBATCH_ERROR_VALUE);
    values[1] = -3;
    IS(ADD(INFER, &row, 1, values, 2), EDBATCH_ERROR_VALUE);
    values[1] = AXIOM;
    IS(edbatch_session_call(session, INFER, &row, 1, values, 2, NULL), ARGUMENT);
    IS(edbatch_session_call(NULL, INFER, &row, 1, values, 2, &result), ARGUMENT);
#define GIVE(record, floats, count) \
    edbatch_session_give(session, record, elements, floats, count, results)
    IS(GIVE(FEATURE, 2 * NUMBERS, 1), CALL);
    IS(GIVE(FEATURE, NUMBERS, 2), CALL);
    IS(GIVE(FEATURE, 0, 2), CALL);
    IS(GIVE(FEATURE, NUMBERS, 0), CALL);
    IS(GIVE(9, NUMBERS, 1), CALL);
    IS(GIVE(FEATURE, NUMBERS, SIZE_MAX), ARGUMENT);
    IS(GIVE(FEATURE, HUGE, 2), ARGUMENT);
    IS(edbatch_session_give(session, FEATURE, NULL, NUMBERS, 1, results), ARGUMENT);
    IS(edbatch_session_give(session, FEATURE, elements, NUMBERS, 1, NULL), ARGUMENT);
    OK(edbatch_session_give(session, FEATURE, NULL, 0, 0, NULL));
    static const uint16_t cells[1] = {RATE};
    static const int64_t operands[1] = {-1};
    static const uint32_t offsets[2] = {0, 1}, falling[2] = {1, 0};
#define CALLS(calls, operand_count, offsets) \
    edbatch_session_calls(session, calls, cells, operands, operand_count, offsets, results)
    IS(CALLS(1, 1, falling), CALL);
    IS(CALLS(1, 0, offsets), CALL);
    IS(CALLS(0, 1, offsets), CALL);
    IS(CALLS(1, 1, NULL), ARGUMENT);
    IS(CALLS(SIZE_MAX, 1, offsets), ARGUMENT);
    IS(CALLS(1, SIZE_MAX, offsets), ARGUMENT);
    IS(edbatch_session_calls(session, 1, NULL, operands, 1, offsets, results), ARGUMENT);
    IS(edbatch_session_calls(session, 1, cells, operands, 1, offsets, NULL), ARGUMENT);
    CHECK(result == 7 && results[0] == 7 && results[1] == 7);
    CHECK(statistics(session).pending == 0);
}

static void values(void) {
    edbatch_value a = infer(session, 1, ZEROS, AXIOM, 0), b[2];
    float out[STATE + 1] = {7};
    size_t needed = 77;
    IS(edbatch_session_fetch(session, &a, 1, out, STATE, &needed), EDBATCH_ERROR_PENDING);
    CHECK(strstr(edbatch_error_message(), "pending") && needed == 77 && out[0] == 7);
    OK(edbatch_session_run(session));
    IS(edbatch_session_fetch(session, &a, 1, out, STATE - 1, &needed), EDBATCH_ERROR_BUFFER);
    CHECK(needed == STATE && out[0] == 7);
    IS(edbatch_session_fetch(session, &a, 1, NULL, STATE, &needed), ARGUMENT);
    IS(edbatch_session_fetch(session, NULL, 1, out, STATE, &needed), ARGUMENT);
    IS(edbatch_session_fetch(session, &a, HUGE, out, STATE, &needed), ARGUMENT);
    IS(edbatch_session_fetch(session, &a, 1, out, SIZE_MAX, &needed), ARGUMENT);
    IS(edbatch_session_fetch(NULL, &a, 1, out, STATE, &needed), ARGUMENT);
    b[0] = b[1] = a;
    IS(edbatch_session_release(session, b, 2), EDBATCH_ERROR_VALUE);
    b[1] = AXIOM;
    IS(edbatch_session_release(session, b, 2), EDBATCH_ERROR_VALUE);
    IS(edbatch_session_release(session, NULL, 1), ARGUMENT);
    IS(edbatch_session_release(NULL, &a, 1), ARGUMENT);
    CHECK(statistics(session).stored == 1 && out[0] == 7);
    OK(edbatch_session_release(session, &a, 1));
    IS(edbatch_session_release(session, &a, 1), EDBATCH_ERROR_VALUE);
    IS(edbatch_session_run(NULL), ARGUMENT);
    IS(edbatch_session_discard(NULL), ARGUMENT);
    IS(edbatch_session_clear(NULL), ARGUMENT);
    edbatch_session_statistics counts;
    counts.size = 8;
    IS(edbatch_session_get_statistics(session, &counts), ARGUMENT);
    IS(edbatch_session_get_statistics(session, NULL), ARGUMENT);
    IS(edbatch_session_get_statistics(session, ODD(edbatch_session_statistics)), ARGUMENT);
    counts.size = sizeof counts;
    IS(edbatch_session_get_statistics(NULL, &counts), ARGUMENT);
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    folder = argv[1];
    engine = open_engine(1);
    session = session_of(engine, 0);
    options();
    opening();
    names();
    inputs();
    session_calls();
    values();
    edbatch_session_free(session);
    edbatch_engine_free(engine);
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
