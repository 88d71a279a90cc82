/* SPDX-License-Identifier: Apache-2.0 */
/* One loop on the main thread. What other threads say wakes it, and it looks at everything:
 *
 *   WAITS --a client connects--> SERVES --none is connected any more--> WAITS, the fronts anew
 *     |                            |
 *     +--SIGTERM--> end            +--SIGTERM--> SERVES, and ends with the last; a second: now */
#define _GNU_SOURCE
#include "launch/agent/agent.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "launch/agent/deaths.h"
#include "launch/agent/session.h"
#include "launch/say.h"

#define LINGER_MS 2000 /* at the end, for the service to hear of the last deaths */

struct agent {
    const struct mst_agent_options *options;
    char host[HOST_NAME_MAX + 1];
    uv_loop_t loop;
    uv_async_t woken;
    uv_timer_t timer;
    uv_signal_t signals[2];
    struct mst_fronts_kind kinds[MST_FRONTS_MAX];
    unsigned count;
    struct mst_fronts *fronts; /* NULL: closed, as they could not begin anew */
    struct muster_client_options client;
    struct mst_agent_session session;
    struct mst_deaths deaths;
    unsigned asked;        /* how often to stop */
    bool used;             /* something has connected since the fronts began */
    bool served;           /* and has gone, once at least */
    uint64_t began_ns;     /* the fronts */
    bool listens, noticed; /* since then */
    bool over;
    uint64_t linger_ns; /* the end is put off until then; 0: it is not */
};

/* ---- what wakes it ---- */

/* On any thread. */
static void wake(void *ctx)
{
    struct agent *agent = ctx;

    (void)uv_async_send(&agent->woken);
}

static void say_line(void *ctx, const char *line)
{
    (void)ctx;
    mst_say("%s", line);
}

static bool process_of(void *ctx, uint32_t index, int connection, uint64_t *pid_out, char *why,
                       size_t room)
{
    struct agent *agent = ctx;

    return mst_deaths_process(&agent->deaths, index, connection, pid_out, why, room);
}

static bool on_unhealthy(void *ctx, uint32_t index, int32_t code, struct mst_slice text)
{
    struct agent *agent = ctx;

    return mst_deaths_unhealthy(&agent->deaths, index, code, text);
}

/* ---- what it looks at ---- */

/* When to look again; NEVER: when something is told. */
static uint64_t look_at_notices(struct agent *agent, uint64_t now_ns)
{
    struct mst_front_notice notice;

    if (!agent->listens && mst_fronts_any(agent->fronts)) {
        agent->listens = true;
        mst_agent_session_hear(&agent->session);
    }
    if (!agent->listens || agent->noticed ||
        !mst_agent_session_notice(&agent->session, agent->began_ns, &notice)) {
        return NEVER;
    }
    if (notice.due_ns > now_ns) {
        return notice.due_ns;
    }
    agent->noticed = true;
    mst_fronts_notice(agent->fronts, notice.text);
    return NEVER;
}

static muster_status begin_fronts(struct agent *agent, struct muster_error *err)
{
    muster_status status = mst_fronts_begin(agent->fronts, 0, err);

    agent->fronts = status == MUSTER_OK ? agent->fronts : NULL;
    agent->used = agent->listens = agent->noticed = false;
    agent->began_ns = mst_lib_now_ns();
    return status;
}

/* The processes that come next are of another attempt: for them nothing has failed yet. The store
 * of torch is that of the job, and stays. */
static void look_at_attempt(struct agent *agent)
{
    struct muster_error err;

    if (!mst_fronts_idle(agent->fronts)) {
        agent->used = true;
    } else if (agent->used) {
        agent->served = true;
        if (begin_fronts(agent, &err) != MUSTER_OK) {
            agent->over = true;
            mst_say("%s", err.text);
        }
    }
}

static bool may_end(struct agent *agent, bool owed)
{
    bool wanted = agent->asked > 0 || (agent->options->until_idle && agent->served);
    uint64_t now_ns = mst_lib_now_ns();

    if (agent->over || agent->asked > 1) {
        return true;
    }
    if (!wanted || !mst_fronts_idle(agent->fronts)) {
        return false;
    }
    if (agent->linger_ns == 0) {
        agent->linger_ns = mst_after_ms(now_ns, LINGER_MS);
    }
    return !owed || now_ns >= agent->linger_ns;
}

static void on_time(uv_timer_t *timer);

static void look(struct agent *agent)
{
    uint64_t now_ns = mst_lib_now_ns(), at_ns;
    bool renewed, owed;

    at_ns = mst_agent_session_look(&agent->session, &renewed);
    if (renewed) {
        mst_deaths_session(&agent->deaths, NULL);
        mst_deaths_session(&agent->deaths, agent->session.client);
    }
    look_at_attempt(agent);
    if (!agent->over) {
        at_ns = mst_sooner(at_ns, look_at_notices(agent, now_ns));
    }
    owed = mst_deaths_owed(&agent->deaths);
    if (may_end(agent, owed)) {
        uv_stop(&agent->loop);
        return;
    }
    at_ns = agent->linger_ns != 0 ? mst_sooner(at_ns, agent->linger_ns) : at_ns;
    if (at_ns != NEVER) {
        (void)uv_timer_start(&agent->timer, on_time, mst_ms_until(at_ns, now_ns), 0);
    }
}

static void on_time(uv_timer_t *timer)
{
    look(timer->data);
}

static void on_woken(uv_async_t *woken)
{
    look(woken->data);
}

static void on_signal(uv_signal_t *signal, int number)
{
    struct agent *agent = signal->data;

    (void)number;
    agent->asked++;
    if (agent->asked == 1 && !mst_fronts_idle(agent->fronts)) {
        mst_say("stopping when the last process of this node has ended; send the signal again to "
                "stop now");
    }
    look(agent);
}

/* ---- begin and end ---- */

static muster_status open_fronts(struct agent *agent, uint16_t *port_out, struct muster_error *err)
{
    const struct mst_agent_options *options = agent->options;
    const struct mst_fronts_options fronts = {.loop = &agent->loop,
                                              .kinds = agent->kinds,
                                              .count = agent->count,
                                              .config = {.size = options->size,
                                                         .recoverable = options->jax_recoverable,
                                                         .limits = mst_limits_default},
                                              .client = &agent->client,
                                              .node = MST_NODE_NONE,
                                              .port = options->port,
                                              .process = process_of,
                                              .unhealthy = on_unhealthy,
                                              .say = say_line,
                                              .changed = wake,
                                              .ctx = agent};
    muster_status status;

    agent->client = *options->access;
    agent->client.host = agent->host;
    agent->client.size_of_job = options->size;
    agent->client.min_size = 1; /* as ranks do */
    status = mst_fronts_open(&agent->fronts, &fronts, port_out, err);
    if (status != MUSTER_OK) {
        return status;
    }
    agent->deaths.fronts = agent->fronts;
    return begin_fronts(agent, err);
}

static bool tell_ready(const struct agent *agent, uint16_t port)
{
    static char *const nothing[] = {NULL};
    struct mst_environment variables;
    bool ok = mst_environment_init(&variables, nothing) == MUSTER_OK;

    for (unsigned i = 0; i < agent->count; i++) {
        ok = ok && mst_front_variables(&variables, agent->kinds[i].front, port);
    }
    if (ok) {
        agent->options->ready(variables.entries);
    }
    mst_environment_fini(&variables);
    return ok;
}

/* First the fronts, whose processes leave by sessions of their own. */
static void close_all(struct agent *agent)
{
    mst_fronts_close(agent->fronts);
    mst_agent_session_close(&agent->session);
    mst_deaths_session(&agent->deaths, NULL);
    mst_deaths_close(&agent->deaths);
    uv_close((uv_handle_t *)&agent->woken, NULL);
    uv_close((uv_handle_t *)&agent->timer, NULL);
    uv_close((uv_handle_t *)&agent->signals[0], NULL);
    uv_close((uv_handle_t *)&agent->signals[1], NULL);
    (void)uv_run(&agent->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&agent->loop);
}

static bool open_loop(struct agent *agent)
{
    if (uv_loop_init(&agent->loop) != 0) {
        return false;
    }
    if (uv_async_init(&agent->loop, &agent->woken, on_woken) != 0) {
        (void)uv_loop_close(&agent->loop);
        return false;
    }
    (void)uv_timer_init(&agent->loop, &agent->timer);
    (void)uv_signal_init(&agent->loop, &agent->signals[0]);
    (void)uv_signal_init(&agent->loop, &agent->signals[1]);
    agent->woken.data = agent->timer.data = agent;
    agent->signals[0].data = agent->signals[1].data = agent;
    return true;
}

static muster_status open_all(struct agent *agent, struct muster_error *err)
{
    muster_status status =
        mst_agent_session_open(&agent->session, agent->options->service_wait_ms, err);
    uint16_t port;

    if (status != MUSTER_OK) {
        return status;
    }
    mst_deaths_session(&agent->deaths, agent->session.client);
    status = open_fronts(agent, &port, err);
    if (status != MUSTER_OK) {
        return status;
    }
    /* Before, they end this process as usual. */
    (void)uv_signal_start(&agent->signals[0], on_signal, SIGTERM);
    (void)uv_signal_start(&agent->signals[1], on_signal, SIGINT);
    if (!tell_ready(agent, port)) {
        return mst_fail(err, MUSTER_ENOMEM, 0, "out of memory");
    }
    return MUSTER_OK;
}

muster_status mst_agent(const struct mst_agent_options *options, struct muster_error *err)
{
    struct agent agent = {.options = options};
    struct mst_slice wrong;
    muster_status status;

    mst_say_as("agent");
    (void)gethostname(agent.host, sizeof agent.host - 1);
    agent.session = (struct mst_agent_session){
        .access = options->access, .host = agent.host, .changed = wake, .ctx = &agent};
    agent.deaths = (struct mst_deaths){
        .loop = &agent.loop, .host = agent.host, .changed = wake, .say = say_line, .ctx = &agent};
    (void)mst_fronts_kinds(options->fronts, agent.kinds, &agent.count, &wrong);
    if (!open_loop(&agent)) {
        return mst_fail(err, MUSTER_ENOMEM, 0, "out of memory");
    }
    mst_deaths_open(&agent.deaths);
    status = open_all(&agent, err);
    if (status == MUSTER_OK) {
        (void)uv_run(&agent.loop, UV_RUN_DEFAULT);
    }
    close_all(&agent);
    return status;
}
