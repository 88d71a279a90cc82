/* SPDX-License-Identifier: Apache-2.0 */
/* The queues of TCPStore, whose items are keys of the service.
 * behaviour: fronts / TCPStore */
#include "tcpstore_stage.h"

static bool pops(struct peer *peer, const char *hex)
{
    stage_say(peer, MST_TCPSTORE_QUEUE_POP, "k", "q");
    return stage_got(peer, hex);
}

static bool has_length(struct peer *peer, int64_t length)
{
    stage_say(peer, MST_TCPSTORE_QUEUE_LEN, "k", "q");
    return stage_got_number(peer, length);
}

static void push(struct peer *peer, const char *item)
{
    stage_say(peer, MST_TCPSTORE_QUEUE_PUSH, "kv", "q", item);
}

static bool is_there(struct peer *peer)
{
    stage_say(peer, MST_TCPSTORE_CHECK, "K", 1, "q");
    return stage_got(peer, "00");
}

#define POPPED(length, size) length " 0 0 0 0 0 0 0 " size " 0 0 0 0 0 0 0 "
#define EMPTY "0 0 0 0 0 0 0 0"

/* Items are popped in the order in which they were pushed, from any node. A queue is no key: it is
 * not counted, and a key of its name is another thing. */
static void queue(struct stage *stage)
{
    struct peer *one = stage_client(stage, 0);
    struct peer *two = stage_client(stage, 1);

    EXPECT(stage, has_length(one, 0) && !stage_got_size(one));
    EXPECT(stage, pops(one, EMPTY));
    push(one, "1");
    push(two, "22");
    push(one, "");
    EXPECT(stage, is_there(two) && has_length(two, 3));
    stage_say(two, MST_TCPSTORE_GETNUMKEYS, "");
    EXPECT(stage, stage_got_number(two, 0));
    stage_say(two, MST_TCPSTORE_SET, "kv", "q", "value");
    EXPECT(stage, pops(two, POPPED("3", "1") "31"));
    EXPECT(stage, pops(one, POPPED("2", "2") "32 32"));
    EXPECT(stage, pops(one, POPPED("1", "0")));
    EXPECT(stage, pops(one, EMPTY) && has_length(two, 0));
    stage_say(two, MST_TCPSTORE_DELETE_KEY, "k", "q");
    EXPECT(stage, stage_got_number(two, 1));
    push(one, "again");
    EXPECT(stage, pops(two, POPPED("1", "5") "61 67 61 69 6e"));
    stage_say(two, MST_TCPSTORE_CHECK, "K", 1, "q");
    EXPECT(stage, stage_got(two, "01"));
}

/* A WAIT for a queue is released by a push, and for an item that is there already at once. */
static void wait_for_queue(struct stage *stage)
{
    struct peer *one = stage_client(stage, 0);
    struct peer *two = stage_client(stage, 1);

    stage_say(one, MST_TCPSTORE_WAIT, "K", 1, "q");
    EXPECT(stage, stage_got_nothing(one));
    push(two, "a");
    EXPECT(stage, stage_got(one, "00"));
    EXPECT(stage, pops(one, POPPED("1", "1") "61"));
    push(two, "b");
    stage_say(one, MST_TCPSTORE_WAIT, "K", 1, "q");
    EXPECT(stage, stage_got(one, "00"));
    EXPECT(stage, pops(one, POPPED("1", "1") "62"));
}

/* One item is pushed, and two clients wait for it. The one that waits longer is released, and finds
 * the item, whatever others ask for before it pops; the other one gets the next item. */
static void reservation(struct stage *stage)
{
    struct peer *first = stage_client(stage, 0);
    struct peer *second = stage_client(stage, 0);
    struct peer *third = stage_client(stage, 1);

    stage_say(first, MST_TCPSTORE_WAIT, "K", 1, "q");
    stage_say(second, MST_TCPSTORE_WAIT, "K", 1, "q");
    push(third, "a");
    EXPECT(stage, stage_got(first, "00") && stage_got_nothing(second));
    EXPECT(stage, pops(third, EMPTY));
    stage_say(third, MST_TCPSTORE_WAIT, "K", 1, "q");
    EXPECT(stage, stage_got_nothing(third));
    stage_say(third, MST_TCPSTORE_CANCEL_WAIT, "");
    EXPECT(stage, stage_got(third, "01"));
    EXPECT(stage, pops(first, POPPED("1", "1") "61"));
    push(third, "b");
    EXPECT(stage, stage_got(second, "00"));
    EXPECT(stage, pops(second, POPPED("1", "1") "62"));
}

/* A client that was released does not pop: it asks for something else, or is lost, or says nothing
 * for a second. Its item is the first of the queue again, and is offered to the next one. */
static void reservation_ends(struct stage *stage)
{
    struct peer *first = stage_client(stage, 0);
    struct peer *second = stage_client(stage, 1);

    push(second, "a");
    push(second, "b");
    stage_say(first, MST_TCPSTORE_WAIT, "K", 1, "q");
    EXPECT(stage, stage_got(first, "00"));
    EXPECT(stage, has_length(first, 2));
    EXPECT(stage, pops(second, POPPED("2", "1") "61"));
    stage_say(first, MST_TCPSTORE_WAIT, "K", 1, "q");
    EXPECT(stage, stage_got(first, "00"));
    stage_say(second, MST_TCPSTORE_WAIT, "K", 1, "q");
    EXPECT(stage, stage_got_nothing(second));
    stage_pass(stage, 999);
    EXPECT(stage, stage_got_nothing(second));
    stage_pass(stage, 1);
    EXPECT(stage, stage_got(second, "00"));
    stage_end(second);
    EXPECT(stage, second->closed && pops(first, POPPED("1", "1") "62"));
}

/* A WAIT for several names, of which one is a queue. It is released when the others exist too, and
 * reserves nothing. */
static void wait_for_both(struct stage *stage)
{
    struct peer *one = stage_client(stage, 0);
    struct peer *two = stage_client(stage, 1);

    push(two, "a");
    stage_say(one, MST_TCPSTORE_WAIT, "K", 2, "q", "k");
    EXPECT(stage, stage_got_nothing(one));
    stage_say(two, MST_TCPSTORE_SET, "kv", "k", "");
    EXPECT(stage, stage_got(one, "00"));
    EXPECT(stage, pops(two, POPPED("1", "1") "61"));
    stage_say(one, MST_TCPSTORE_WAIT, "K", 2, "k", "q");
    EXPECT(stage, stage_got_nothing(one));
    push(two, "b");
    EXPECT(stage, stage_got(one, "00"));
    EXPECT(stage, pops(two, POPPED("1", "1") "62"));
}

/* Four consumers pop 100 items each by WAIT and QUEUE_POP while one producer pushes 400. Each item
 * is popped once, in order, and no pop finds the queue empty. */
static void consumers(struct stage *stage)
{
    struct peer *producer = stage_client(stage, 0);
    struct peer *clients[4];
    unsigned next = 0;

    for (size_t i = 0; i < 4; i++) {
        clients[i] = stage_client(stage, (uint32_t)i % 2);
        stage_say(clients[i], MST_TCPSTORE_WAIT, "K", 1, "q");
    }
    for (unsigned i = 0; i < 400; i++) {
        char item[] = {(char)('a' + i / 20), (char)('a' + i % 20), '\0'};
        bool popped = false;

        push(producer, item);
        for (size_t j = 0; j < 4 && !popped; j++) {
            popped = stage_got_size(clients[j]) > 0;
            if (popped) {
                const unsigned char *got;

                EXPECT(stage, stage_got(clients[j], "00"));
                stage_say(clients[j], MST_TCPSTORE_QUEUE_POP, "k", "q");
                assert_int_equal(stage_got_size(clients[j]), 18);
                got = clients[j]->got + clients[j]->taken;
                assert_int_equal(got[16], 'a' + next / 20);
                assert_int_equal(got[17], 'a' + next % 20);
                next++;
                clients[j]->taken = clients[j]->got_size;
                stage_say(clients[j], MST_TCPSTORE_WAIT, "K", 1, "q");
            }
        }
        EXPECT(stage, popped);
    }
    EXPECT(stage, next == 400);
}

#define SCENARIO(name, run)                                                                        \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        run(name);                                                                                 \
    }

#define SCENARIOS(X)                                                                               \
    X(queue, stage_run)                                                                            \
    X(wait_for_queue, stage_run)                                                                   \
    X(reservation, stage_run)                                                                      \
    X(reservation_ends, stage_run)                                                                 \
    X(wait_for_both, stage_run)                                                                    \
    X(consumers, stage_run_once)

SCENARIOS(SCENARIO)

#define ROW(name, run) cmocka_unit_test(test_##name),

int main(void)
{
    const struct CMUnitTest tests[] = {SCENARIOS(ROW)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
