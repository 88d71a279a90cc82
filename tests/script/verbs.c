/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs.h"

#include <stdio.h>
#include <string.h>

#include "proto/settings.h"
#include "proto/vector.h"
#include "proto/words.h"

enum { OPS_MAX = 32, LIST_MAX = 64, ELEMENT = 8 };

/* One line being carried out. */
struct scene {
    struct stage *stage;
    struct words words;
    const char *verb;
    struct actor *actor;
    struct mst_request request;
    /* what the request borrows */
    struct mst_write ops[OPS_MAX];
    struct mst_slice keys[LIST_MAX];
    uint32_t participants[LIST_MAX];
    uint32_t order[LIST_MAX];
    unsigned char vector[LIST_MAX * ELEMENT];
};

static struct mst_slice slice(const char *text)
{
    return text ? mst_slice_text(text) : mst_slice_of(NULL, 0);
}

static uint64_t generation(struct scene *scene, uint64_t standard)
{
    return words_number(&scene->words, "generation", standard);
}

static void ask_only(struct scene *scene)
{
    (void)scene; /* the command says it all */
}

/* ---- the words of each request ---- */

static void ask_join(struct scene *scene)
{
    scene->request.join.spare = words_flag(&scene->words, "spare");
    scene->request.join.heard = words_number(&scene->words, "heard", 0);
}

/* Of the actor's requests: that with the id, else the newest of the verb, else the newest. */
static const struct asked *pick_asked(struct scene *scene)
{
    uint64_t id = words_number(&scene->words, "id", 0);
    const char *verb = words_next(&scene->words);
    const struct asked *picked = NULL;

    for (size_t i = 0; i < ASKED_MAX; i++) {
        const struct asked *asked = &scene->actor->asked[i];

        if (!asked->line[0] || (id != 0 && asked->id != id) ||
            (verb && strncmp(asked->line, verb, strlen(verb)) != 0)) {
            continue;
        }
        if (!picked || picked->id < asked->id) {
            picked = asked;
        }
    }
    if (!picked) {
        words_bad(&scene->words, "asked no such thing", scene->actor->name);
    }
    return picked;
}

static void ask_cancel(struct scene *scene)
{
    scene->request.cancel.id = pick_asked(scene)->id;
}

static void read_op(struct scene *scene, const char *verb, struct mst_write *op)
{
    static const struct {
        const char *verb;
        enum mst_write_kind kind;
    } kinds[] = {{"insert", MST_INSERT}, {"put", MST_PUT},       {"cas", MST_CAS},
                 {"add", MST_ADD},       {"append", MST_APPEND}, {"delete", MST_DELETE}};
    struct words *words = &scene->words;

    *op = (struct mst_write){.owned = words_flag(words, "owned"),
                             .expected = words_number(words, "expected", 0)};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(kinds[i].verb, verb) == 0) {
            op->kind = kinds[i].kind;
        }
    }
    if (op->kind == 0) {
        words_bad(words, "no write", verb);
    }
    op->key = slice(words_need(words, "a key"));
    if (op->kind == MST_ADD) {
        op->delta = words_to_number(words, words_need(words, "a number"));
    } else if (op->kind != MST_DELETE) {
        op->value = slice(words_need(words, "a value"));
    }
}

static void ask_write(struct scene *scene)
{
    scene->request.write.generation = generation(scene, 0);
    read_op(scene, scene->verb, &scene->ops[0]);
    scene->request.write.ops = scene->ops;
    scene->request.write.count = 1;
}

static void ask_batch(struct scene *scene)
{
    struct words *words = &scene->words;
    uint32_t count = 0;

    scene->request.write.generation = generation(scene, 0);
    while (words_part(words, ";")) {
        if (count == OPS_MAX) {
            words_bad(words, "too many operations", scene->verb);
        }
        read_op(scene, words_need(words, "an operation"), &scene->ops[count++]);
    }
    scene->request.write.ops = scene->ops;
    scene->request.write.count = count;
}

static void ask_get(struct scene *scene)
{
    scene->request.get.generation = generation(scene, 0);
    scene->request.get.wait = words_flag(&scene->words, "wait");
    scene->request.get.key = slice(words_need(&scene->words, "a key"));
}

static void ask_delete_prefix(struct scene *scene)
{
    scene->request.delete_prefix.generation = generation(scene, 0);
    scene->request.delete_prefix.prefix = slice(words_need(&scene->words, "a prefix"));
}

static void ask_list(struct scene *scene)
{
    scene->request.list.generation = generation(scene, 0);
    scene->request.list.after = slice(words_option(&scene->words, "after"));
    scene->request.list.prefix = slice(words_next(&scene->words));
}

static void ask_wait(struct scene *scene)
{
    const char *key;

    scene->request.wait.generation = generation(scene, 0);
    while (scene->request.wait.count < LIST_MAX && (key = words_next(&scene->words))) {
        scene->keys[scene->request.wait.count++] = slice(key);
    }
    scene->request.wait.keys = scene->keys;
}

static void ask_watch(struct scene *scene)
{
    struct words *words = &scene->words;
    const char *prefix = words_option(words, "keys");

    scene->request.watch.generation = generation(scene, 0);
    scene->request.watch.prefix = slice(prefix);
    scene->request.watch.kinds = (prefix ? MST_WATCH_KEYS : 0u) |
                                 (words_flag(words, "members") ? MST_WATCH_MEMBERS : 0u) |
                                 (words_flag(words, "faults") ? MST_WATCH_FAULTS : 0u) |
                                 (words_flag(words, "view") ? MST_WATCH_VIEW : 0u);
    scene->request.watch.node = MST_NODE_NONE;
    scene->request.watch.after =
        words_flag(words, "on") ? scene->actor->revision : words_number(words, "after", 0);
}

/* "1,-2,3"; each is handed to `put`. */
static void read_list(struct scene *scene, const char *text,
                      void (*put)(struct scene *scene, uint32_t at, int64_t number))
{
    uint32_t count = 0;

    while (text) {
        char number[32];
        const char *comma = strchr(text, ',');
        size_t size = comma ? (size_t)(comma - text) : strlen(text);

        if (size >= sizeof(number) || count == LIST_MAX) {
            words_bad(&scene->words, "no list of numbers", text);
        }
        (void)snprintf(number, sizeof(number), "%.*s", (int)size, text);
        put(scene, count++, words_to_number(&scene->words, number));
        text = comma ? comma + 1 : NULL;
    }
}

static void put_participant(struct scene *scene, uint32_t at, int64_t number)
{
    scene->participants[at] = (uint32_t)number;
    scene->request.round.participants = scene->participants;
    scene->request.round.participant_count = at + 1;
}

static void put_ordered(struct scene *scene, uint32_t at, int64_t number)
{
    scene->order[at] = (uint32_t)number;
    scene->request.round.order = scene->order;
    scene->request.round.order_count = at + 1;
}

static void put_element(struct scene *scene, uint32_t at, int64_t number)
{
    for (unsigned i = 0; i < ELEMENT; i++) {
        scene->vector[at * ELEMENT + i] = (unsigned char)((uint64_t)number >> (8 * i));
    }
    scene->request.round.data = mst_slice_of(scene->vector, (at + 1) * (size_t)ELEMENT);
}

static enum mst_reduce read_reduce(struct words *words)
{
    static const char *const flags[] = {"gather",     "min",      "max",        "sum",
                                        "equal",      "xor",      "sum-double", "min-double",
                                        "max-double", "broadcast"};

    for (uint32_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        if (words_flag(words, flags[i])) {
            return (enum mst_reduce)(i + MST_REDUCE_GATHER);
        }
    }
    return MST_REDUCE_NONE;
}

static void ask_round(struct scene *scene)
{
    struct mst_round_request *round = &scene->request.round;
    struct words *words = &scene->words;
    const char *data = words_option(words, "data");

    round->generation = generation(scene, scene->actor->generation);
    round->number = words_number(words, "number", 0);
    round->deadline_ms = words_ms(words, "deadline");
    round->on_loss = words_flag(words, "proceed") ? MST_PROCEED : MST_FAIL;
    round->reduce = read_reduce(words);
    round->root = (uint32_t)words_number(words, "root", 0);
    round->present_only = words_flag(words, "present-only");
    round->final = words_flag(words, "final");
    read_list(scene, words_option(words, "participants"), put_participant);
    if (mst_vector_reduced_by(round->reduce)) {
        read_list(scene, data, put_element);
    } else {
        round->data = slice(data);
    }
    round->name = slice(words_need(words, "a name"));
}

/* A round whose name is its own business. */
static void ask_seal(struct scene *scene)
{
    struct mst_round_request *round = &scene->request.round;

    round->generation = generation(scene, scene->actor->generation);
    round->number = words_number(&scene->words, "number", 0);
    round->deadline_ms = words_ms(&scene->words, "deadline");
    round->replace_ms = words_ms(&scene->words, "replace");
    round->on_loss = MST_PROCEED;
    round->seal = true;
    round->reduce = read_reduce(&scene->words);
    read_list(scene, words_option(&scene->words, "data"), put_element);
    read_list(scene, words_option(&scene->words, "order"), put_ordered);
    round->name = slice("seal");
}

static void ask_round_members(struct scene *scene)
{
    scene->request.round_members.generation = generation(scene, scene->actor->generation);
    scene->request.round_members.number = words_number(&scene->words, "number", 0);
    scene->request.round_members.name = slice(words_need(&scene->words, "a name"));
}

static void ask_page(struct scene *scene)
{
    scene->request.page.after = words_number(&scene->words, "after", 0);
}

static enum mst_cause read_kind(struct words *words)
{
    const char *word = words_option(words, "kind");

    if (!word) {
        return MST_CAUSE_NONE;
    }
    for (int cause = MST_CAUSE_EXIT; cause <= MST_CAUSE_LAST; cause++) {
        if (strcmp(word, mst_cause_word((enum mst_cause)cause)) == 0) {
            return (enum mst_cause)cause;
        }
    }
    words_bad(words, "no kind of fault", word);
}

static const struct actor *read_actor(struct scene *scene, const char *name)
{
    const struct actor *actor = stage_find(scene->stage, name);

    if (!actor) {
        words_bad(&scene->words, "nobody of this name", name);
    }
    return actor;
}

/* fault #2 code=5; fault #1 peer=#2 code=-10; fault agent#0 #2 kind=soft-timeout; fault agent#0 any
 * kind=soft-timeout pid=7 */
static void ask_fault(struct scene *scene)
{
    struct words *words = &scene->words;
    const struct actor *about = NULL;
    const char *peer = words_option(words, "peer");
    const char *name;

    scene->request.fault.generation = generation(scene, scene->actor->generation);
    scene->request.fault.code = (int32_t)words_number(words, "code", 0);
    scene->request.fault.text = slice(words_option(words, "text"));
    scene->request.fault.kind = read_kind(words);
    scene->request.fault.pid = words_number(words, "pid", 0);
    name = words_next(words);
    if (name && strcmp(name, "any") == 0) {
        scene->request.fault.index = MST_INDEX_ANY;
    } else if (name) {
        about = read_actor(scene, name);
        scene->request.fault.index = about->open.index;
        if (scene->request.fault.pid == 0) {
            scene->request.fault.pid = about->open.pid;
        }
    }
    if (peer) {
        scene->request.fault.peer = read_actor(scene, peer)->open.index + 1;
    }
}

/* lost agent#0 #2 signal 9 */
static void ask_lost(struct scene *scene)
{
    struct words *words = &scene->words;
    const char *name = words_need(words, "who is lost");
    const struct actor *victim = read_actor(scene, name);

    scene->request.lost.index = victim->open.index;
    scene->request.lost.pid = words_number(words, "pid", victim->open.pid);
    scene->request.lost.text = slice(words_option(words, "text"));
    scene->request.lost.last = words_flag(words, "last");
    if (words_flag(words, "gone")) {
        scene->request.lost.cause = MST_CAUSE_GONE;
        return;
    }
    scene->request.lost.cause = words_flag(words, "signal")         ? MST_CAUSE_SIGNAL
                                : words_flag(words, "exit")         ? MST_CAUSE_EXIT
                                : words_flag(words, "hard-timeout") ? MST_CAUSE_HARD_TIMEOUT
                                : words_flag(words, "unhealthy")    ? MST_CAUSE_UNHEALTHY
                                                                    : MST_CAUSE_NONE;
    if (scene->request.lost.cause == MST_CAUSE_NONE) {
        words_bad(words, "missing", "signal N, exit N, hard-timeout N, unhealthy N or gone");
    }
    scene->request.lost.code = (int32_t)words_to_number(words, words_need(words, "a code"));
}

/* cut watcher #2 for=3s */
static void ask_cut(struct scene *scene)
{
    struct words *words = &scene->words;
    const char *name = words_need(words, "who is cut off");
    const struct actor *victim = read_actor(scene, name);

    scene->request.cut.index = victim->open.index;
    scene->request.cut.incarnation = words_number(words, "incarnation", 0);
    scene->request.cut.for_ms = words_number(words, "for-ms", 0);
}

static const struct {
    const char *verb;
    enum mst_command command;
    void (*ask)(struct scene *scene);
} requests[] = {
    {"join", MST_JOIN, ask_join},       {"renew", MST_RENEW, ask_only},
    {"leave", MST_LEAVE, ask_only},     {"cancel", MST_CANCEL, ask_cancel},
    {"insert", MST_WRITE, ask_write},   {"put", MST_WRITE, ask_write},
    {"cas", MST_WRITE, ask_write},      {"add", MST_WRITE, ask_write},
    {"append", MST_WRITE, ask_write},   {"delete", MST_WRITE, ask_write},
    {"batch", MST_WRITE, ask_batch},    {"get", MST_GET, ask_get},
    {"list", MST_LIST, ask_list},       {"wait", MST_WAIT, ask_wait},
    {"watch", MST_WATCH, ask_watch},    {"round", MST_ROUND, ask_round},
    {"seal", MST_ROUND, ask_seal},      {"round-members", MST_ROUND_MEMBERS, ask_round_members},
    {"members", MST_MEMBERS, ask_page}, {"rounds", MST_ROUNDS, ask_page},
    {"jobs", MST_JOBS, ask_page},       {"hosts", MST_HOSTS, ask_page},
    {"faults", MST_FAULTS, ask_page},   {"fault", MST_FAULT, ask_fault},
    {"lost", MST_LOST, ask_lost},       {"cut", MST_CUT, ask_cut},
    {"history", MST_HISTORY, ask_page}, {"delete-prefix", MST_DELETE_PREFIX, ask_delete_prefix},
};

/* ---- sending ---- */

static void find_actor(struct scene *scene)
{
    const char *name = words_need(&scene->words, "who");

    scene->actor = stage_find(scene->stage, name);
    if (!scene->actor) {
        words_bad(&scene->words, "nobody of this name", name);
    }
}

static void find_connected(struct scene *scene)
{
    find_actor(scene);
    if (scene->actor->conn.id == 0) {
        words_bad(&scene->words, "not connected", scene->actor->name);
    }
}

/* False: the verb is no request. */
static bool make_request(struct scene *scene)
{
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        if (strcmp(requests[i].verb, scene->verb) == 0) {
            find_connected(scene);
            scene->request = (struct mst_request){.command = requests[i].command};
            requests[i].ask(scene);
            words_all_used(&scene->words);
            return true;
        }
    }
    return false;
}

static void send_new(struct scene *scene, const char *text)
{
    struct actor *actor = scene->actor;
    struct mst_request *request = &scene->request;
    struct asked *asked;

    request->id = ++actor->id;
    request->oldest = request->id;
    asked = &actor->asked[request->id % ASKED_MAX];
    *asked = (struct asked){.id = request->id, .oldest = request->oldest};
    asked->vector = request->command == MST_JOIN ||
                    (request->command == MST_ROUND && mst_vector_reduced_by(request->round.reduce));
    memcpy(asked->line, text, strlen(text) + 1);
    stage_request(scene->stage, actor, request);
}

/* ---- verbs that are no requests ---- */

/* Whatever is not said is as the name of the actor has it. */
static void read_open(struct scene *scene)
{
    struct mst_open *open = &scene->actor->open;
    struct words *words = &scene->words;
    const char *host = words_option(words, "host");

    if (words_flag(words, "anywhere")) {
        open->role = MST_ROLE_RANK;
        open->index = MST_INDEX_ANY;
    }
    if (host) {
        size_t size = strlen(host);

        if (size >= sizeof(scene->actor->host)) {
            words_bad(words, "too long", host);
        }
        memcpy(scene->actor->host, host, size + 1);
        open->host = mst_slice_text(scene->actor->host);
    }
    open->pid = words_number(words, "pid", open->pid);
    open->node = (uint32_t)words_number(words, "node", open->node);
    open->size = (uint32_t)words_number(words, "size", 0);
    open->min_size = (uint32_t)words_number(words, "min_size", 0);
    open->max_size = (uint32_t)words_number(words, "max_size", 0);
    open->size_multiple = (uint32_t)words_number(words, "size_multiple", 0);
    open->join_wait_ms = words_ms(words, "join_wait");
    open->grow = (enum mst_grow)words_choice(words, "grow");
    open->incarnation = words_number(words, "incarnation", 0);
    open->replaces = words_flag(words, "replaces");
    scene->actor->generation = generation(scene, 0);
    words_all_used(words);
}

static void do_open(struct scene *scene)
{
    const char *name = words_need(&scene->words, "who");

    if (stage_find(scene->stage, name)) {
        words_bad(&scene->words, "was opened before: resume it, or name another process", name);
    }
    scene->actor = stage_enter(scene->stage, name);
    if (!scene->actor) {
        words_bad(&scene->words, "too many, or too long a name", name);
    }
    read_open(scene);
    stage_open(scene->stage, scene->actor);
}

/* Opens again as the same process over a new connection. The old one may still be there. */
static void do_resume(struct scene *scene)
{
    find_actor(scene);
    words_all_used(&scene->words);
    stage_open(scene->stage, scene->actor);
}

static void do_close(struct scene *scene)
{
    find_connected(scene);
    words_all_used(&scene->words);
    stage_close(scene->stage, scene->actor);
}

/* A request once more, under its id and word by word as it was. */
static void do_repeat(struct scene *scene)
{
    struct scene again = {.stage = scene->stage};
    const struct asked *asked;

    find_connected(scene);
    asked = pick_asked(scene);
    words_all_used(&scene->words);
    words_split(&again.words, scene->words.file, scene->words.line, asked->line);
    again.verb = words_need(&again.words, "a verb");
    if (make_request(&again)) {
        again.request.id = asked->id;
        again.request.oldest = asked->oldest;
        stage_request(scene->stage, again.actor, &again.request);
    }
}

static void do_freeze(struct scene *scene)
{
    find_actor(scene);
    scene->actor->frozen = true;
}

static void do_thaw(struct scene *scene)
{
    find_actor(scene);
    scene->actor->frozen = false;
}

static void do_pass(struct scene *scene)
{
    uint64_t ms = words_to_ms(&scene->words, words_need(&scene->words, "how long"));

    words_all_used(&scene->words);
    stage_pass(scene->stage, ms);
}

static void do_stall(struct scene *scene)
{
    uint64_t ms = words_to_ms(&scene->words, words_need(&scene->words, "how long"));

    words_all_used(&scene->words);
    stage_stall(scene->stage, ms);
}

static void do_restart(struct scene *scene)
{
    words_all_used(&scene->words);
    stage_restart(scene->stage);
}

static void do_hold(struct scene *scene)
{
    const char *why = words_need(&scene->words, "why");

    words_all_used(&scene->words);
    stage_hold(scene->stage, why);
}

static void do_release(struct scene *scene)
{
    words_all_used(&scene->words);
    stage_hold(scene->stage, NULL);
}

/* Settings of the service, by their names in settings.def. */
static void do_service(struct scene *scene)
{
    struct mst_core_config *config = &scene->stage->config;
    struct mst_limits *limits = &config->limits;
    struct words *words = &scene->words;
    uint64_t lease_ms = words_ms(words, "lease");

    if (scene->stage->core) {
        words_bad(words, "the service runs already", scene->verb);
    }
    if (lease_ms != 0) {
        config->lease_ns = lease_ms * 1000000;
    }
#define READ_LIMIT(name) limits->name = words_number(words, #name, limits->name);
#define READ_SERVICE(name)
#define READ_CLIENT(name)
#define READ_RUN(name)
#define READ_RESTART(name)
#define X(scope, name, unit, standard, least, most, help) READ_##scope(name)
#include "proto/settings.def"
#undef X
    words_all_used(words);
}

static const struct {
    const char *verb;
    void (*perform)(struct scene *scene);
} others[] = {
    {"service", do_service}, {"open", do_open},     {"resume", do_resume},
    {"close", do_close},     {"repeat", do_repeat}, {"freeze", do_freeze},
    {"thaw", do_thaw},       {"advance", do_pass},  {"stall", do_stall},
    {"restart", do_restart}, {"hold", do_hold},     {"release", do_release},
};

void verbs_perform(struct stage *stage, const char *file, size_t line, const char *text)
{
    struct scene scene = {.stage = stage};

    words_split(&scene.words, file, line, text);
    scene.verb = words_need(&scene.words, "a verb");
    if (make_request(&scene)) {
        send_new(&scene, text);
        return;
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (strcmp(others[i].verb, scene.verb) == 0) {
            others[i].perform(&scene);
            return;
        }
    }
    words_bad(&scene.words, "no such verb", scene.verb);
}
