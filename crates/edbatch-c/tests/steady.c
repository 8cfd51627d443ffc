/* Many calls, of which few values live at a time: `steady NET_FOLDER CALLS`. Memory stays constant,
 * and a leak checker finds nothing. */
#include "check.h"

enum { LIVE = 100, WAVE = 20 };

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    folder = argv[1];
    long calls = atol(argv[2]), done = 0;
    edbatch_engine *engine = open_engine(1);
    edbatch_session *session = session_of(engine, 0);
    edbatch_value live[LIVE];
    uint64_t held = 0;
    unsigned random = 1;
    for (int i = 0; i < LIVE; ++i) live[i] = infer(session, (uint32_t)i % RULES, ZEROS, AXIOM, 0);
    OK(edbatch_session_run(session));
    for (done = LIVE; done < calls && failed == 0; done += WAVE) {
        for (int i = 0; i < WAVE; ++i) {
            random = random * 1664525u + 1013904223u;
            unsigned a = random % LIVE, b = (random >> 8) % LIVE, out = (random >> 16) % LIVE;
            edbatch_value made = infer(session, random % RULES, ZEROS, live[a], live[b]);
            OK(edbatch_session_release(session, &live[out], 1));
            live[out] = made;
        }
        OK(edbatch_session_run(session));
        uint64_t now = statistics(session).held_bytes;
        /* After a tenth of the calls, the largest run has been. */
        if (done < calls / 10) held = now > held ? now : held;
        else if (now > held + held / 10) CHECK(!"memory grows");
    }
    CHECK(statistics(session).stored == LIVE && (long)statistics(session).calls == done);
    edbatch_session_free(session);
    edbatch_engine_free(engine);
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
