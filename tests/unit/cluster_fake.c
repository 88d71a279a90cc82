/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cluster_fake.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include <cmocka.h>

#include "os/system.h"

struct fake_worker *fake_join(const muster_cluster *cluster)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    struct fake_worker *worker = calloc(1, sizeof(*worker));

    assert_non_null(worker);
    options.role = MUSTER_ROLE_WORKER;
    options.index = MUSTER_INDEX_ANY;
    options.addr = cluster->client->addr;
    options.job = cluster->client->job;
    worker->client = library_open(&options);
    return worker;
}

void fake_connect(struct fake_worker *worker, const muster_cluster *cluster)
{
    struct muster_error err = {0};

    mst_cluster_link_free(worker->link);
    worker->link = NULL;
    library_ok(mst_cluster_link_connect(&worker->link, mst_slice_text(cluster->listener.addresses),
                                        NULL, &mst_system_mem, &err),
               &err);
}

void fake_connect_tcp(struct fake_worker *worker, const muster_cluster *cluster,
                      struct mst_tls_context *tls)
{
    const char *tcp = strchr(cluster->listener.addresses, ',');
    struct muster_error err = {0};

    assert_non_null(tcp);
    library_ok(mst_cluster_link_connect(&worker->link, mst_slice_text(tcp + 1), tls,
                                        &mst_system_mem, &err),
               &err);
}

void fake_send(struct fake_worker *worker, const struct mst_cluster_message *message)
{
    assert_int_equal(mst_cluster_link_send(worker->link, message), MUSTER_OK);
    mst_cluster_link_flush(worker->link);
}

const struct mst_cluster_message *fake_next(struct fake_worker *worker)
{
    for (;;) {
        muster_status status = mst_cluster_link_next(worker->link, &worker->message);
        uint32_t events = 0;
        struct pollfd polled = {.fd = mst_cluster_link_fd(worker->link, &events)};
        bool again = false;

        if (status == MUSTER_OK) {
            if (worker->message.type == MST_CLUSTER_RUN) {
                worker->series = worker->message.series;
            }
            return &worker->message;
        }
        if (polled.fd < 0) {
            return NULL;
        }
        polled.events =
            (short)((events & EPOLLIN ? POLLIN : 0) | (events & EPOLLOUT ? POLLOUT : 0));
        if (poll(&polled, 1, LIMIT_MS) != 1) {
            fail_msg("the coordinator says nothing");
        }
        if (mst_cluster_link_ready(worker->link, (uint32_t)polled.revents, worker->room, &again) <
            0) {
            return NULL;
        }
    }
}

const struct mst_cluster_message *fake_expect(struct fake_worker *worker,
                                              enum mst_cluster_message_type type)
{
    const struct mst_cluster_message *message = fake_next(worker);

    assert_non_null(message);
    assert_int_equal(message->type, type);
    return message;
}

void fake_expect_end(struct fake_worker *worker)
{
    while (fake_next(worker)) {
    }
}

void fake_hello(struct fake_worker *worker, const muster_cluster *cluster, uint32_t slots)
{
    static const struct mst_function functions[] = {{.name = {"echo", 4}, .version = 1},
                                                    {.name = {"twice", 5}, .version = 2}};
    struct muster_view view;
    struct mst_cluster_message hello = {.type = MST_CLUSTER_HELLO,
                                        .version = MST_CLUSTER_VERSION,
                                        .cluster = mst_slice_text(cluster->settings.name),
                                        .pid = 4711,
                                        .host = mst_slice_text("here"),
                                        .slots = slots,
                                        .functions = functions,
                                        .function_count = 2,
                                        .term = cluster->term.number};

    muster_client_view(worker->client, &view);
    hello.index = view.index;
    hello.incarnation = view.incarnation;
    fake_send(worker, &hello);
}

struct fake_worker *fake_worker(const muster_cluster *cluster, uint32_t slots)
{
    struct fake_worker *worker = fake_join(cluster);

    fake_connect(worker, cluster);
    fake_hello(worker, cluster, slots);
    (void)fake_expect(worker, MST_CLUSTER_WELCOME);
    return worker;
}

void fake_answer(struct fake_worker *worker, struct mst_attempt attempt, const char *text)
{
    const struct mst_part part = {.data = mst_slice_text(text), .type = 7};
    const struct mst_cluster_message result = {.type = MST_CLUSTER_RESULT,
                                               .attempt = attempt,
                                               .series = worker->series,
                                               .parts = {.items = &part, .count = 1},
                                               .failure = {.worker = MST_WORKER_NONE},
                                               .run_ns = 1000};

    fake_send(worker, &result);
}

void fake_fail(struct fake_worker *worker, struct mst_attempt attempt,
               const struct mst_failure *failure)
{
    const struct mst_cluster_message result = {.type = MST_CLUSTER_RESULT,
                                               .attempt = attempt,
                                               .series = worker->series,
                                               .failure = *failure,
                                               .run_ns = 1000};

    fake_send(worker, &result);
}

void fake_leave(struct fake_worker *worker)
{
    mst_cluster_link_free(worker->link);
    muster_client_close(worker->client);
    free(worker);
}
