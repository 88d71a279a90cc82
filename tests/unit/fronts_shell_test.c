/* SPDX-License-Identifier: Apache-2.0 */
/* The fronts of a node with a front of this test's own: its client says one letter, and the
 * front does one thing. The service is a real one.
 *
 * behaviour: fronts / The agent's side */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/shell/internal.h"
#include "fronts/shell/fronts.h"
#include "library_stage.h"

/* ---- a front: the first byte of a connection is 'E', then
 *
 *   0 to 7   open a session for that process        "o" when it is open, "e" when it is over
 *   p        put the key k                          "p" and the status
 *   w        wait for the key k; w again: drop the call
 *   l        leave          f        fail
 *   b        send a MiB      q        close the connection
 *   x        what clients wait for is another
 *
 * A death is "d" and the index, a notice "n", to all connections. ---- */

enum { QUEUE = 64, MIB = 1 << 20 };

static struct echo {
    struct mst_front_effect queue[QUEUE];
    unsigned first, last;
    uint64_t connection, session, sessions, tag, waits, generation;
    size_t backlog_most;
    uint32_t attempt;
    bool first_seen;
    char text[128];
} * echo; /* the newest */

static char mib[MIB];

static void effect(struct echo *one, struct mst_front_effect said)
{
    said.connection = one->connection;
    said.session = said.session != 0 ? said.session : one->session;
    one->queue[one->last++ % QUEUE] = said;
}

static void answer(struct echo *one, const char *text)
{
    effect(one, (struct mst_front_effect){.kind = MST_FRONT_SEND, .bytes = mst_slice_text(text)});
}

static muster_status echo_new(void **out, const struct mst_front_config *config,
                              const struct mst_mem *mem)
{
    (void)mem;
    echo = calloc(1, sizeof *echo);
    echo->attempt = config->attempt;
    *out = echo;
    return MUSTER_OK;
}

static void echo_connected(void *front, uint64_t now_ns, uint64_t connection)
{
    (void)now_ns;
    ((struct echo *)front)->connection = connection;
}

static void post(struct echo *one, const struct mst_request *request)
{
    effect(one, (struct mst_front_effect){.kind = MST_FRONT_POST,
                                          .request = request,
                                          .deadline_ns = UINT64_MAX,
                                          .tag = ++one->tag});
}

static void command(struct echo *one, char letter)
{
    static struct mst_write put = {.kind = MST_PUT};
    static struct mst_request write = {.command = MST_WRITE, .write = {.ops = &put, .count = 1}};
    static struct mst_request wait = {.command = MST_GET, .get.wait = true};

    put.key = mst_slice_text("k");
    put.value = mst_slice_text("v");
    write.write.generation = one->generation;
    wait.get.key = mst_slice_text("k");
    wait.get.generation = one->generation;
    if (letter >= '0' && letter <= '7') {
        one->session = ++one->sessions;
        effect(one, (struct mst_front_effect){
                        .kind = MST_FRONT_OPEN, .index = (uint32_t)(letter - '0'), .size = 2});
    } else if (letter == 'o') {
        one->session = ++one->sessions;
        effect(one,
               (struct mst_front_effect){.kind = MST_FRONT_OPEN, .index = MST_FRONT_INDEX_NONE});
    } else if (letter == 'p') {
        post(one, &write);
    } else if (letter == 'w' && one->waits == 0) {
        post(one, &wait);
        one->waits = one->tag;
    } else if (letter == 'w') {
        effect(one, (struct mst_front_effect){.kind = MST_FRONT_DROP, .tag = one->waits});
        answer(one, "D");
    } else if (letter == 'l') {
        effect(one, (struct mst_front_effect){.kind = MST_FRONT_LEAVE});
        answer(one, "L");
    } else if (letter == 'f') {
        effect(one, (struct mst_front_effect){.kind = MST_FRONT_FAIL,
                                              .cause = MST_CAUSE_UNHEALTHY,
                                              .code = 7,
                                              .bytes = mst_slice_text("it broke")});
        answer(one, "F");
    } else if (letter == 'b') {
        effect(one, (struct mst_front_effect){.kind = MST_FRONT_SEND,
                                              .bytes = mst_slice_of(mib, sizeof mib)});
    } else if (letter == 'x') {
        effect(one, (struct mst_front_effect){.kind = MST_FRONT_WAITS});
        answer(one, "X");
    } else if (letter == 'q') {
        answer(one, "Q");
        effect(one, (struct mst_front_effect){.kind = MST_FRONT_CLOSE});
    }
}

static void echo_received(void *front, uint64_t now_ns, uint64_t connection, struct mst_slice bytes)
{
    struct echo *one = front;

    (void)now_ns;
    (void)connection;
    for (size_t i = 0; i < bytes.size; i++) {
        char letter = ((const char *)bytes.data)[i];

        if (!one->first_seen) {
            assert_int_equal(letter, 'E');
            one->first_seen = true;
        } else {
            command(one, letter);
        }
    }
}

static void echo_closed(void *front, uint64_t now_ns, uint64_t connection)
{
    (void)now_ns;
    (void)connection;
    ((struct echo *)front)->first_seen = false;
}

static void echo_written(void *front, uint64_t now_ns, uint64_t connection, size_t backlog)
{
    struct echo *one = front;

    (void)now_ns;
    (void)connection;
    one->backlog_most = backlog > one->backlog_most ? backlog : one->backlog_most;
}

static void echo_opened(void *front, uint64_t now_ns, uint64_t session, uint64_t generation)
{
    struct echo *one = front;

    (void)now_ns;
    one->session = session;
    one->generation = generation;
    answer(one, generation != 0 ? "o" : "O");
}

static void echo_reply(void *front, uint64_t now_ns, uint64_t session, uint64_t tag,
                       const struct mst_reply *reply)
{
    (void)now_ns;
    (void)session;
    (void)tag;
    answer(front, reply->status == MUSTER_OK ? "P" : "X");
}

static void echo_ended(void *front, uint64_t now_ns, uint64_t session, muster_status status,
                       struct mst_slice text)
{
    struct echo *one = front;

    (void)now_ns;
    (void)session;
    assert_true(status != MUSTER_OK);
    (void)snprintf(one->text, sizeof one->text, "%.*s", (int)text.size, (const char *)text.data);
    answer(one, "e");
}

static void echo_dead(void *front, uint64_t now_ns, uint32_t index, struct mst_slice text)
{
    struct echo *one = front;

    (void)now_ns;
    (void)index;
    (void)snprintf(one->text, sizeof one->text, "%.*s", (int)text.size, (const char *)text.data);
    answer(one, "d");
}

static void echo_notice(void *front, uint64_t now_ns, struct mst_slice text)
{
    (void)now_ns;
    (void)text;
    answer(front, "n");
}

/* Of processes 0 and 1, twice, and of others. */
static void echo_waits(const void *front,
                       void (*each)(void *ctx, const struct mst_front_wait *wait), void *ctx)
{
    static const uint32_t pids[] = {1001, 1000, 1001, 7, 8, 9};

    (void)front;
    for (size_t i = 0; i < sizeof pids / sizeof pids[0]; i++) {
        struct mst_front_wait wait = {.pid = pids[i],
                                      .since_ns = UINT64_MAX,
                                      /* later than now: 0 ms */ .what =
                                          mst_slice_text("for\ta\nkey")};

        each(ctx, &wait);
    }
}

static void echo_tick(void *front, uint64_t now_ns)
{
    (void)front;
    (void)now_ns;
}

static uint64_t echo_deadline(const void *front)
{
    (void)front;
    return UINT64_MAX;
}

static const struct mst_front_effect *echo_next(void *front)
{
    struct echo *one = front;

    return one->first < one->last ? &one->queue[one->first++ % QUEUE] : NULL;
}

static void echo_check(const void *front)
{
    (void)front;
}

static const struct mst_front echo_front = {.name = "echo",
                                            .new = echo_new,
                                            .free = free,
                                            .connected = echo_connected,
                                            .received = echo_received,
                                            .closed = echo_closed,
                                            .written = echo_written,
                                            .opened = echo_opened,
                                            .reply = echo_reply,
                                            .ended = echo_ended,
                                            .dead = echo_dead,
                                            .notice = echo_notice,
                                            .waits = echo_waits,
                                            .tick = echo_tick,
                                            .deadline_ns = echo_deadline,
                                            .next = echo_next,
                                            .check = echo_check};

/* ---- the stage: the agent of processes 0 and 1, whose pid is 1000 and the index ---- */

static struct stage {
    muster_client *service; /* process 1 itself */
    struct muster_client_options client;
    uv_loop_t loop;
    uv_timer_t limit;
    struct mst_fronts *fronts;
    uint16_t port;
    int fd;
    char said[400], waits[4096];
    int connection; /* of the process that the fronts asked for last */
    unsigned changes;
    bool reports; /* the agent, that a process is unhealthy */
    char reported[64];
} stage;

static bool process_of(void *ctx, uint32_t index, int connection, uint64_t *pid_out, char *why,
                       size_t room)
{
    (void)ctx;
    stage.connection = connection;
    *pid_out = 1000 + index;
    (void)snprintf(why, room, "process %u is not of this node", (unsigned)index);
    return index < 2;
}

static bool on_unhealthy(void *ctx, uint32_t index, int32_t code, struct mst_slice text)
{
    (void)ctx;
    (void)snprintf(stage.reported, sizeof stage.reported, "%u %d %.*s", (unsigned)index, code,
                   (int)text.size, (const char *)text.data);
    return stage.reports;
}

static void on_changed(void *ctx)
{
    (void)ctx;
    stage.changes++;
}

static uint32_t rank_of(void *ctx, uint32_t pid)
{
    (void)ctx;
    return pid >= 1000 ? pid - 1000 : MST_FRONT_INDEX_NONE;
}

static void on_waits(void *ctx)
{
    (void)ctx;
    mst_fronts_waits(stage.fronts, stage.waits, sizeof stage.waits);
}

static void say(void *ctx, const char *line)
{
    (void)ctx;
    (void)snprintf(stage.said, sizeof stage.said, "%s", line);
}

static void on_limit(uv_timer_t *timer)
{
    (void)timer;
    fail_msg("nothing came in %d ms", LIMIT_MS);
}

static int connect_to(uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static void begin(uint32_t attempt)
{
    struct muster_error err = {0};

    library_ok(mst_fronts_begin(stage.fronts, attempt, &err), &err);
}

static int set_up(void **state)
{
    static const struct mst_fronts_kind kinds[] = {{&echo_front, 'E'}};
    struct mst_fronts_options options = {.loop = &stage.loop,
                                         .kinds = kinds,
                                         .count = 1,
                                         .client = &stage.client,
                                         .node = MST_NODE_NONE,
                                         .process = process_of,
                                         .unhealthy = on_unhealthy,
                                         .waits = on_waits,
                                         .rank = rank_of,
                                         .say = say,
                                         .changed = on_changed};
    struct muster_error err = {0};

    if (library_stage_setup(state) != 0) {
        return -1;
    }
    memset(&stage, 0, sizeof stage);
    stage.service = library_alone(); /* starts the service, in a job of its own */
    stage.client = (struct muster_client_options)MUSTER_CLIENT_OPTIONS_INIT;
    stage.client.addr = stage.service->addr;
    stage.client.job = "fronted";
    (void)uv_loop_init(&stage.loop);
    (void)uv_timer_init(&stage.loop, &stage.limit);
    library_ok(mst_fronts_open(&stage.fronts, &options, &stage.port, &err), &err);
    begin(0);
    stage.fd = connect_to(stage.port);
    return 0;
}

static int tear_down(void **state)
{
    (void)close(stage.fd);
    mst_fronts_close(stage.fronts);
    uv_close((uv_handle_t *)&stage.limit, NULL);
    (void)uv_run(&stage.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&stage.loop), 0);
    muster_client_close(stage.service);
    return library_stage_teardown(state);
}

static void write_to(int fd, const char *letters)
{
    assert_int_equal(send(fd, letters, strlen(letters), MSG_NOSIGNAL), (ssize_t)strlen(letters));
}

/* The loop turns until that many bytes have come; 0: until the end of them. */
static void expect_on(int fd, const char *letters)
{
    char got[64] = "";
    size_t size = 0, want = strlen(letters);
    ssize_t more = 0;

    (void)uv_timer_start(&stage.limit, on_limit, LIMIT_MS, 0);
    while (want == 0 || size < want) {
        (void)uv_run(&stage.loop, UV_RUN_NOWAIT);
        more = recv(fd, got + size, 1, MSG_DONTWAIT);
        if (more > 0) {
            size++;
            assert_true(size < sizeof got);
        } else if (more == 0) {
            break;
        } else {
            (void)uv_run(&stage.loop, UV_RUN_NOWAIT);
        }
    }
    (void)uv_timer_stop(&stage.limit);
    assert_string_equal(got, letters);
}

/* ---- what the job sees ---- */

/* The process in the place `index`, with its text. */
static struct muster_member seen(uint32_t index, char text[128])
{
    struct muster_client_options options = stage.client;
    struct muster_error err = {0};
    struct muster_member found = {.pid = 0};
    muster_members *members = NULL;
    muster_client *observer;

    options.role = MUSTER_ROLE_OBSERVER;
    observer = library_open(&options);
    library_ok(muster_member_list(observer, LIMIT_MS, &members, &err), &err);
    for (size_t i = 0; i < muster_members_count(members); i++) {
        const struct muster_member *one = muster_members_get(members, i);

        if (one->role == MUSTER_ROLE_RANK && one->index == index) {
            found = *one;
            (void)snprintf(text, 128, "%s", one->text);
        }
    }
    muster_members_free(members);
    muster_client_close(observer);
    return found;
}

static bool told;
static struct mst_item first;
static char first_text[64];

static void on_told(void *ctx, const struct mst_reply *reply)
{
    (void)ctx;
    assert_int_equal(reply->status, MUSTER_OK);
    if (reply->item_count > 0) {
        first = reply->items[0];
        (void)snprintf(first_text, sizeof first_text, "%.*s", (int)first.value.size,
                       (const char *)first.value.data);
    }
    told = true;
}

static bool is_told(void *ctx)
{
    (void)ctx;
    return told;
}

/* As an agent does. */
static void ask(const struct mst_request *request)
{
    struct muster_client_options options = stage.client;
    struct mst_lib_post post = {.complete = on_told};
    muster_client *agent;

    options.role = MUSTER_ROLE_AGENT;
    options.index = 0;
    agent = library_open(&options);
    told = false;
    mst_lib_lock(agent);
    assert_int_equal(mst_lib_post(agent, request, UINT64_MAX, &post), MUSTER_OK);
    assert_true(mst_lib_wait(agent, is_told, NULL, UINT64_MAX));
    mst_lib_unlock(agent);
    muster_client_close(agent);
}

static void report_death(uint32_t index)
{
    const struct mst_request lost = {
        .command = MST_LOST,
        .lost = {.index = index, .pid = 1000 + index, .cause = MST_CAUSE_SIGNAL, .code = 9}};

    ask(&lost);
}

static void open_both(void)
{
    write_to(stage.fd, "E01");
    expect_on(stage.fd, "oo");
}

/* Of this process, and two more. */
static nlink_t threads(void)
{
    struct stat found;

    assert_int_equal(stat("/proc/self/task", &found), 0);
    return found.st_nlink;
}

/* ---- tests ---- */

/* Two processes of a job of two speak to a front. Their sessions have no threads: the loop of the
 * front drives them. */
static void sessions_have_no_threads(void **state)
{
    nlink_t before = threads();

    (void)state;
    open_both();
    write_to(stage.fd, "p");
    expect_on(stage.fd, "P");
    assert_int_equal(threads(), before);
}

/* Two processes of a job of two speak to a front. Each is a rank of the job, under the pid that the
 * agent reports, and its calls reach the service. */
static void a_process_is_a_rank(void **state)
{
    char text[128];

    (void)state;
    assert_false(mst_fronts_any(stage.fronts));
    open_both();
    assert_int_equal(seen(0, text).pid, 1000);
    assert_int_equal(seen(1, text).pid, 1001);
    assert_int_equal(seen(1, text).state, MUSTER_MEMBER_PRESENT);
    assert_true(mst_fronts_has(stage.fronts, 1));
    assert_false(mst_fronts_has(stage.fronts, 2));
    write_to(stage.fd, "p");
    expect_on(stage.fd, "P");
}

/* A process opens a session. The agent is asked for its pid, and is given its connection. */
static void a_process_is_known_by_its_connection(void **state)
{
    struct sockaddr_in own, other;
    socklen_t size = sizeof own;

    (void)state;
    open_both();
    assert_int_equal(getpeername(stage.connection, (struct sockaddr *)&other, &size), 0);
    assert_int_equal(getsockname(stage.fd, (struct sockaddr *)&own, &size), 0);
    assert_int_equal(other.sin_port, own.sin_port);
}

/* The fronts are idle while nothing is connected and no process is a member; the agent learns when
 * that changes. */
static void fronts_that_are_idle(void **state)
{
    unsigned changes;

    (void)state;
    open_both();
    assert_false(mst_fronts_idle(stage.fronts));
    write_to(stage.fd, "l"); /* of process 1 */
    expect_on(stage.fd, "L");
    (void)close(stage.fd);
    stage.fd = connect_to(stage.port);
    write_to(stage.fd, "Eo");
    expect_on(stage.fd, "O");
    assert_false(mst_fronts_idle(stage.fronts)); /* process 0 has not left */
    begin(1);
    assert_true(mst_fronts_idle(stage.fronts));
    changes = stage.changes;
    expect_on(stage.fd, "");
    assert_true(stage.changes > changes);
}

/* A process says an index that is of no process of this node. It is refused, in one line. */
static void a_stranger_is_refused(void **state)
{
    (void)state;
    write_to(stage.fd, "E5");
    expect_on(stage.fd, "e");
    assert_string_equal(echo->text, "process 5 is not of this node");
    assert_false(mst_fronts_any(stage.fronts));
}

/* A client that is no process of the job uses its keys. It is no member. */
static void a_session_that_is_no_member(void **state)
{
    (void)state;
    write_to(stage.fd, "Eop");
    expect_on(stage.fd, "OP");
    assert_false(mst_fronts_any(stage.fronts));
}

/* A process dies. Its front learns it from the agent, and that its session is over from the
 * service. */
static void a_death(void **state)
{
    char text[128];

    (void)state;
    open_both();
    report_death(0);
    mst_fronts_dead(stage.fronts, 0, "was killed by signal 9 (Killed)");
    assert_false(mst_fronts_has(stage.fronts, 0));
    write_to(stage.fd, "");
    expect_on(stage.fd, "de");
    assert_int_equal(seen(0, text).state, MUSTER_MEMBER_LOST);
    assert_int_equal(seen(1, text).state, MUSTER_MEMBER_PRESENT);
}

/* A process is done. It has left the job, and its session ends without a word to the front. */
static void a_process_leaves(void **state)
{
    char text[128];

    (void)state;
    open_both();
    write_to(stage.fd, "l");
    expect_on(stage.fd, "L");
    assert_false(mst_fronts_has(stage.fronts, 0) && mst_fronts_has(stage.fronts, 1));
    (void)uv_timer_start(&stage.limit, on_limit, LIMIT_MS, 0);
    while (seen(1, text).state != MUSTER_MEMBER_LEFT && seen(0, text).state != MUSTER_MEMBER_LEFT) {
        (void)uv_run(&stage.loop, UV_RUN_NOWAIT);
    }
    (void)uv_timer_stop(&stage.limit);
}

/* A front observes that a process is unhealthy. The agent reports it, and that it is lost: the
 * process's session reports nothing, and does not leave. */
static void an_unhealthy_process(void **state)
{
    const struct mst_request faults = {.command = MST_FAULTS};
    char text[128];

    (void)state;
    open_both();
    stage.reports = true;
    write_to(stage.fd, "fl");
    expect_on(stage.fd, "FL");
    assert_string_equal(stage.reported + 1, " 7 it broke");
    assert_true(mst_fronts_has(stage.fronts, 0) != mst_fronts_has(stage.fronts, 1));
    first = (struct mst_item){.kind = 0};
    ask(&faults);
    assert_int_equal(first.kind, 0);
    assert_int_equal(seen(0, text).state, MUSTER_MEMBER_PRESENT);
    assert_int_equal(seen(1, text).state, MUSTER_MEMBER_PRESENT);
}

/* A front reports a fault of a process, and the agent does not. The job has it, with its cause, its
 * code and its text. */
static void a_failure(void **state)
{
    const struct mst_request faults = {.command = MST_FAULTS};

    (void)state;
    open_both();
    write_to(stage.fd, "fp");
    expect_on(stage.fd, "FP"); /* in order: the fault was answered before */
    ask(&faults);
    assert_int_equal(first.kind, MST_ITEM_FAULT);
    assert_int_equal(first.who.cause, MST_CAUSE_UNHEALTHY);
    assert_int_equal(first.who.code, 7);
    assert_string_equal(first_text, "it broke");
}

/* A wait is dropped. It is not answered, and the session goes on. */
static void a_dropped_call(void **state)
{
    (void)state;
    open_both();
    write_to(stage.fd, "w");
    write_to(stage.fd, "wp");
    expect_on(stage.fd, "DP"); /* the key is there, and the wait is not answered */
    write_to(stage.fd, "l");
    expect_on(stage.fd, "L");
}

/* A notice reaches the job. Each front learns it. */
static void a_notice(void **state)
{
    (void)state;
    write_to(stage.fd, "Eop");
    expect_on(stage.fd, "OP");
    mst_fronts_notice(stage.fronts, "by hand");
    expect_on(stage.fd, "n");
}

/* A front says that other clients wait. The agent has a line of each process, with its rank if it
 * has one, and of any text for people one line; what has no room is counted. */
static void waits(void **state)
{
    char few[64];

    (void)state;
    write_to(stage.fd, "Ex");
    expect_on(stage.fd, "X");
    assert_string_equal(stage.waits, "1\t1001\t0\tfor?a?key\n0\t1000\t0\tfor?a?key\n"
                                     "\t7\t0\tfor?a?key\n\t8\t0\tfor?a?key\n\t9\t0\tfor?a?key");
    mst_fronts_waits(stage.fronts, few, sizeof few);
    assert_string_equal(few, "1\t1001\t0\tfor?a?key\n0\t1000\t0\tfor?a?key\n+3");
}

/* The processes are started anew. The earlier ones' connections are closed, their sessions say
 * nothing, and the front is a new one. */
static void another_attempt(void **state)
{
    enum muster_member_state state_of;
    char text[128];

    (void)state;
    open_both();
    assert_int_equal(echo->attempt, 0);
    begin(1);
    expect_on(stage.fd, "");
    assert_int_equal(echo->attempt, 1);
    assert_false(mst_fronts_any(stage.fronts));
    state_of = seen(0, text).state;
    assert_true(state_of == MUSTER_MEMBER_PRESENT || state_of == MUSTER_MEMBER_SILENT);
    (void)close(stage.fd);
    stage.fd = connect_to(stage.port);
    write_to(stage.fd, "Eop");
    expect_on(stage.fd, "OP");
}

/* A client asks for 40 MiB and reads nothing: the front learns how much waits. Then it reads, and
 * gets all of it in order. */
static void a_slow_reader(void **state)
{
    enum { PIECES = 40 };
    static char bytes[65536];
    size_t left = (size_t)PIECES * MIB;

    (void)state;
    write_to(stage.fd, "E");
    for (unsigned i = 0; i < PIECES; i++) {
        write_to(stage.fd, "b");
    }
    (void)uv_timer_start(&stage.limit, on_limit, LIMIT_MS, 0);
    while (echo == NULL || echo->backlog_most == 0) {
        (void)uv_run(&stage.loop, UV_RUN_NOWAIT);
    }
    while (left > 0) {
        ssize_t got = recv(stage.fd, bytes, sizeof bytes, MSG_DONTWAIT);

        (void)uv_run(&stage.loop, UV_RUN_NOWAIT);
        assert_true(got != 0);
        for (ssize_t i = 0; i < got; i++) {
            assert_int_equal(bytes[i], 'm');
        }
        left -= got > 0 ? (size_t)got : 0;
    }
    (void)uv_timer_stop(&stage.limit);
    write_to(stage.fd, "q");
    expect_on(stage.fd, "Q");
}

/* A front closes a connection: what it had said before arrives. A connection whose first byte is of
 * no front is closed. */
static void closed_connections(void **state)
{
    int fd = connect_to(stage.port);

    (void)state;
    write_to(stage.fd, "Eq");
    expect_on(stage.fd, "Q");
    expect_on(stage.fd, "");
    write_to(fd, "GET /");
    expect_on(fd, "");
    (void)close(fd);
}

/* A process of another user connects to the port, which all users of the node reach. It is cut off,
 * nothing of it is read, and one line says whose it was. Needs root, to be two users. */
static void a_process_of_another_user(void **state)
{
    enum { NOBODY = 65534 };
    char said[200];
    int status;
    pid_t child;

    (void)state;
    if (geteuid() != 0) {
        skip();
    }
    child = fork();
    if (child == 0) {
        char byte;
        int fd;

        if (setuid(NOBODY) != 0) {
            _exit(2);
        }
        fd = connect_to(stage.port);
        (void)send(fd, "Eb", 2, MSG_NOSIGNAL);
        _exit(recv(fd, &byte, 1, 0) > 0); /* the end, or a reset */
    }
    assert_true(child > 0);
    (void)uv_timer_start(&stage.limit, on_limit, LIMIT_MS, 0);
    while (waitpid(child, &status, WNOHANG) == 0) {
        (void)uv_run(&stage.loop, UV_RUN_NOWAIT);
    }
    (void)uv_timer_stop(&stage.limit);
    assert_int_equal(status, 0);
    (void)snprintf(said, sizeof said,
                   "a process of user %d connected to the port of JAX and torch, and was cut off: "
                   "this run is of user 0",
                   NOBODY);
    assert_string_equal(stage.said, said);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_process_is_a_rank, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_process_is_known_by_its_connection, set_up, tear_down),
        cmocka_unit_test_setup_teardown(fronts_that_are_idle, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_stranger_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_process_of_another_user, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_session_that_is_no_member, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_death, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_process_leaves, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_unhealthy_process, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_failure, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_dropped_call, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_notice, set_up, tear_down),
        cmocka_unit_test_setup_teardown(waits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_attempt, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_slow_reader, set_up, tear_down),
        cmocka_unit_test_setup_teardown(closed_connections, set_up, tear_down),
        cmocka_unit_test_setup_teardown(sessions_have_no_threads, set_up, tear_down),
    };

    memset(mib, 'm', sizeof mib);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
