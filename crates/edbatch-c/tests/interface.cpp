// The header in C++, with a class that frees: `interface_cpp NET_FOLDER`.
#include "edbatch.h"

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <vector>

namespace {

void check(edbatch_status status) {
    if (status != EDBATCH_OK) throw std::runtime_error(edbatch_error_message());
}

struct Free {
    void operator()(edbatch_engine *engine) const { edbatch_engine_free(engine); }
    void operator()(edbatch_session *session) const { edbatch_session_free(session); }
};

class Session {
    std::unique_ptr<edbatch_session, Free> session;

public:
    explicit Session(const char *folder) {
        edbatch_engine *engine = nullptr;
        edbatch_session *made = nullptr;
        check(edbatch_engine_open(folder, nullptr, &engine));
        std::unique_ptr<edbatch_engine, Free> freed(engine);
        check(edbatch_session_new(engine, 0, &made));
        session.reset(made);
    }

    edbatch_value call(uint16_t cell, std::vector<uint32_t> rows, std::vector<edbatch_value> of) {
        edbatch_value result = 0;
        check(edbatch_session_call(session.get(), cell, rows.data(), rows.size(), of.data(),
                                   of.size(), &result));
        return result;
    }

    std::vector<float> run_and_fetch(edbatch_value value) {
        check(edbatch_session_run(session.get()));
        std::size_t needed = 0;
        edbatch_session_fetch(session.get(), &value, 1, nullptr, 0, &needed);
        std::vector<float> elements(needed);
        check(edbatch_session_fetch(session.get(), &value, 1, elements.data(), needed, nullptr));
        return elements;
    }
};

}  // namespace

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    Session session(argv[1]);
    edbatch_value clause = session.call(0, {3}, {-2, -1});
    if (session.run_and_fetch(clause).size() != 14) return 1;
    try {
        session.call(1, {}, {-2});
        return 1;
    } catch (const std::runtime_error &error) {
        std::printf("0 failed, as expected: %s\n", error.what());
    }
    return 0;
}
