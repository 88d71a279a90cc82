// SPDX-License-Identifier: Apache-2.0
// A rank whose function has objects to destroy and atomic sections to end: what a restart does to
// them. It speaks as rank/restart.c does: events go out as datagrams to the socket EVENTS, orders
// come in on a socket of its own.
//
//   unwind_rank EVENTS
//
// Orders: ok | fail TEXT | write PATH: half of a file, an order "go", and the other half, in an
// atomic section | deaf-write: the same once a signal has come, without looking | nest: fails in
// the innermost of three atomic sections | frames: waits for nothing within three frames, each with
// an object | throw: throws from there | late: is done, and waits for nothing while an object is
// destroyed | deaf N: goes on N times, whatever it is told; 0: always.
#include <cerrno>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

extern "C" {
#include "rank/belongings.h"
#include "rank/events.h"
}
#include "muster/muster.h"

namespace
{

enum { BEAT_MS = 5, HALF = 100000 };

// Empty: a signal came.
std::string order_of(int flags)
{
    char line[LINE_ROOM];

    (void)order_take(line, sizeof line, flags);
    return line;
}

// Waits for what never comes; true: a signal ended it.
bool wait_for_nothing(const char *where)
{
    int pair[2];
    char byte;
    bool cut;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        die("socketpair");
    }
    event("blocked where=%s", where);
    cut = read(pair[0], &byte, 1) < 0 && errno == EINTR;
    event("freed where=%s cut=%d", where, cut);
    close(pair[0]);
    close(pair[1]);
    return cut;
}

// Lives in a frame, and tells its end.
class object
{
  public:
    explicit object(const char *name, bool waits = false) : name_(name), waits_(waits)
    {
    }
    object(const object &) = delete;
    object &operator=(const object &) = delete;
    ~object()
    {
        if (waits_) {
            (void)wait_for_nothing("destructor");
        }
        event("destroyed name=%s", name_);
    }

  private:
    const char *name_;
    bool waits_;
};

muster_status inner(muster_restart *restart, bool throws)
{
    object one("inner");

    if (throws) {
        throw std::string("thrown in the innermost frame");
    }
    (void)wait_for_nothing("frame");
    return muster_restart_check(restart);
}

muster_status middle(muster_restart *restart, bool throws)
{
    object one("middle");

    return inner(restart, throws);
}

muster_status outer(muster_restart *restart, bool throws)
{
    object one("outer");

    try {
        return middle(restart, throws);
    } catch (const std::string &what) { // no exception may pass a frame of muster's
        return muster_restart_fail(restart, 1, what.c_str());
    }
}

muster_status late()
{
    object one("late", true);

    return MUSTER_OK;
}

muster_status deaf(muster_restart *restart, long times)
{
    for (long i = 0; times == 0 || i < times; i++) {
        (void)wait_for_nothing("deaf");
        event("swallowed status=%s", muster_status_name(muster_restart_check(restart)));
    }
    return muster_restart_check(restart);
}

void put_half(FILE *file, char what)
{
    std::string half(HALF, what);

    if (fwrite(half.data(), 1, HALF, file) != HALF || fflush(file) != 0) {
        die("fwrite");
    }
}

muster_status write_file(muster_restart *restart, const std::string &path)
{
    muster_status status = muster_restart_atomic_begin(restart);
    FILE *file;
    int cut = 0;

    if (status) {
        event("refused status=%s", muster_status_name(status));
        return status;
    }
    file = std::fopen(path.c_str(), "we");
    if (!file) {
        die(path.c_str());
    }
    put_half(file, 'a');
    event("half");
    while (order_of(0) != "go") {
        cut++;
    }
    status = muster_restart_check(restart);
    put_half(file, 'b');
    (void)std::fclose(file);
    event("whole cut=%d inside=%s", cut, muster_status_name(status));
    status = muster_restart_atomic_end(restart);
    event("ended status=%s", muster_status_name(status));
    return status;
}

muster_status nest(muster_restart *restart)
{
    for (int i = 0; i < 3; i++) {
        if (muster_restart_atomic_begin(restart)) {
            die("atomic");
        }
    }
    return muster_restart_fail(restart, 1, "in the innermost");
}

// MORE: there is no such order for a function that is still to do something.
muster_status obey(muster_restart *restart, const std::string &order)
{
    std::string word = order.substr(0, order.find(' '));
    std::string rest = order.size() > word.size() ? order.substr(word.size() + 1) : "";

    if (word == "ok") {
        return MUSTER_OK;
    }
    if (word == "fail") {
        return muster_restart_fail(restart, 1, rest.c_str());
    }
    if (word == "write") {
        return write_file(restart, rest);
    }
    if (word == "deaf-write") {
        (void)wait_for_nothing("deaf-write");
        return write_file(restart, "/dev/null");
    }
    if (word == "nest") {
        return nest(restart);
    }
    if (word == "late") {
        return late();
    }
    if (word == "deaf") {
        return deaf(restart, std::strtol(rest.c_str(), nullptr, 10));
    }
    return word == "frames" || word == "throw" ? outer(restart, word == "throw") : MUSTER_MORE;
}

muster_status function(muster_restart *restart, void *)
{
    muster_view view;
    muster_status status = MUSTER_MORE;

    muster_restart_view(restart, &view);
    event("entered generation=%" PRIu64 " iteration=%" PRIu64 " rank=%" PRIu32 " size=%" PRIu32,
          view.generation, view.iteration, view.rank, view.size);
    while (status == MUSTER_MORE) {
        pollfd in = {orders_fd, POLLIN, 0};

        status = muster_restart_ping(restart);
        if (status) {
            event("told status=%s", muster_status_name(status));
            return status;
        }
        status = MUSTER_MORE;
        if (poll(&in, 1, BEAT_MS) > 0) {
            status = obey(restart, order_of(MSG_DONTWAIT));
        }
    }
    event("returns status=%s", muster_status_name(status));
    return status;
}

muster_status finalize(muster_restart *, void *)
{
    event("callback name=finalize");
    return MUSTER_OK;
}

bool handler_is_default()
{
    struct sigaction action;

    sigaction(SIGRTMIN + 7, nullptr, &action);
    return action.sa_handler == SIG_DFL;
}

} // namespace

int main(int argc, char **argv)
{
    static belongings before;
    char text[512];
    bool clean;
    muster_restart_options options = {};
    struct muster_restart_hook step = {finalize, nullptr}; // there is a function of that name
    muster_client *client = nullptr;
    muster_error err = {};
    muster_view view;
    muster_status status;

    if (argc != 2) {
        (void)std::fprintf(stderr, "usage: unwind_rank EVENTS\n");
        return 2;
    }
    events_open(argv[1]);
    belongings_note(&before);
    status = muster_client_open(&client, nullptr, 60000, &err);
    if (status) {
        die(err.text);
    }
    muster_client_view(client, &view);
    events_index_set(view.index);
    options.size = sizeof options;
    options.finalize.list = &step;
    options.finalize.count = 1;
    status = muster_restart_run(client, &options, function, nullptr, &err);
    event("done status=%s clean=%d text=%s", muster_status_name(status), handler_is_default(),
          err.text);
    muster_client_close(client);
    clean = belongings_are(&before, text, sizeof text);
    event("closed clean=%d text=%s", clean, text);
    events_close();
    return muster_exit_code(status);
}
