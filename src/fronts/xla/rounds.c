/* SPDX-License-Identifier: Apache-2.0 */
/* Barrier and GetAliveTasks: rounds of the generation. The counter of a barrier is the number of
 * the round. */
#include "base/digest.h"
#include "fronts/xla/machine.h"

enum {
    SPACES = 6 * sizeof(max_align_t), /* what aligning five pieces takes */
    ID_MAX = 4096, /* of a barrier: an error has to name it in 8 KiB of headers */
    SHOWN_MAX = 200,
    NAME_ROOM = 256, /* of a round: name_bytes_max of most services */
    NAME_LEAST = 64,
    DIGEST_ROOM = 20,
    INCARNATION = 8,
    TAKEN_MAX = 64
};

/* ---- the tasks that take part ---- */

/* Ascending, each once. */
struct indices {
    uint32_t *at;
    uint32_t count, said; /* what the client said */
};

static void sort(struct indices *indices)
{
    uint32_t *at = indices->at, count = 0;

    /* They come in order, or nearly. */
    for (uint32_t i = 1; i < indices->count; i++) {
        uint32_t index = at[i], j = i;

        for (; j > 0 && at[j - 1] > index; j--) {
            at[j] = at[j - 1];
        }
        at[j] = index;
    }
    for (uint32_t i = 0; i < indices->count; i++) {
        if (count == 0 || at[count - 1] != at[i]) {
            at[count++] = at[i];
        }
    }
    indices->count = count;
}

static uint32_t said_count(const struct mst_xla_call *call, const struct mst_xla_request *request)
{
    return call->wire == MST_XLA_X ? request->id_count : request->place_count;
}

static struct indices keep_indices(struct mst_xla_op *op, const struct mst_xla_call *call,
                                   const struct mst_xla_request *request)
{
    struct indices indices = {.count = said_count(call, request)};

    indices.said = indices.count;
    indices.at = mst_xla_op_room(op, indices.count * sizeof *indices.at);
    for (uint32_t i = 0; i < indices.count; i++) {
        indices.at[i] = call->wire == MST_XLA_X ? request->ids[i] : request->places[i].id;
    }
    sort(&indices);
    return indices;
}

static bool has_index(const struct indices *indices, uint32_t index)
{
    for (uint32_t i = 0; i < indices->count; i++) {
        if (indices->at[i] == index) {
            return true;
        }
    }
    return indices->said == 0;
}

/* ---- errors ---- */

static void say_who(struct mst_text *text, const struct mst_who *who)
{
    mst_text_format(text, "task %u (%s%s%.*s)", who->index, mst_state_word(who->state),
                    who->host.size > 0 ? ", node " : "", MST_SLICE_ARGS(who->host));
}

/* The lost, then the missing. */
static void say_detail(struct mst_text *text, const struct mst_detail *detail)
{
    uint32_t others = detail->lost + detail->missing;

    mst_text_format(text, "%u/%u tasks arrived", detail->arrived, detail->expected);
    for (uint32_t i = 0; i < detail->who_count; i++) {
        const struct mst_who *who = &detail->who[i];

        mst_text_add(text, i == 0              ? detail->lost > 0 ? "; lost: " : "; missing: "
                           : i == detail->lost ? "; missing: "
                                               : ", ");
        say_who(text, who);
        if (i < detail->lost && who->cause != MST_CAUSE_NONE) {
            struct mst_caused caused = {.cause = who->cause, .code = who->code};

            mst_text_add(text, " ");
            mst_cause_phrase(text, &caused);
        }
    }
    if (others > detail->who_count) {
        mst_text_format(text, " and %u more", others - detail->who_count);
    }
}

struct mst_xla_error mst_xla_error_round(enum mst_xla_code code, const char *words,
                                         const struct mst_reply *reply)
{
    struct mst_xla_error error = mst_xla_error_of(code, "%s", words);
    struct mst_text text = {
        .start = error.text, .size = strlen(error.text), .room = sizeof error.text};

    /* A code that says it needs no words. */
    if (code != MST_XLA_DEADLINE_EXCEEDED) {
        mst_text_format(&text, "%s: ", mst_status_text(reply->status));
    }
    if (reply->has_detail && reply->detail.expected > 0) {
        say_detail(&text, &reply->detail);
    }
    return error;
}

static struct mst_slice shown(struct mst_slice name)
{
    return mst_slice_of(name.data, name.size < SHOWN_MAX ? name.size : SHOWN_MAX);
}

static struct mst_xla_error barrier_error(const struct mst_xla_op *op,
                                          const struct mst_reply *reply)
{
    struct mst_slice id = shown(op->name);
    bool has_current =
        reply->has_detail && (reply->status == MUSTER_ESTALE || (reply->status == MUSTER_EINVAL));
    uint64_t current = has_current ? (uint64_t)reply->detail.limit : op->counter;
    struct mst_xla_error error;
    char words[512];

    if (reply->status == MUSTER_ETIMEDOUT) {
        (void)mst_text_print(words, sizeof words, "Barrier timed out. Id: %.*s::%" PRIu64 ". ",
                             MST_SLICE_ARGS(id), op->counter);
        error = mst_xla_error_round(MST_XLA_DEADLINE_EXCEEDED, words, reply);
    } else if (has_current && current != op->counter) {
        error =
            mst_xla_error_of(MST_XLA_INTERNAL,
                             "task %u calls the %" PRIu64
                             "-th instance of barrier %.*s, and the service is at %" PRIu64 ": %s",
                             op->task->index, op->counter, MST_SLICE_ARGS(id), current,
                             op->counter == 0 || current == 0 ? "a task has restarted"
                                                              : "a task is too quick / slow");
    } else if (reply->status == MUSTER_EINVAL && reply->has_detail) {
        error = mst_xla_error_of(MST_XLA_INVALID_ARGUMENT,
                                 "Conflicting tasks specified for barrier %.*s::%" PRIu64,
                                 MST_SLICE_ARGS(id), op->counter);
    } else if (reply->status == MUSTER_ECANCELLED) {
        error = mst_xla_error_native("Barrier", reply);
    } else {
        struct mst_xla_error native = mst_xla_error_native("Barrier", reply);

        (void)mst_text_print(words, sizeof words, "Barrier failed because: %.*s::%" PRIu64 ": ",
                             MST_SLICE_ARGS(id), op->counter);
        error = mst_xla_error_round(native.code, words, reply);
    }
    error.has_barrier = true;
    error.barrier = (struct mst_xla_barrier_error){op->name, current};
    return error;
}

/* ---- rounds whose results the client has ---- */

/* The service keeps the last result of each name until all have said that they have it. JAX has a
 * name for nearly each of its barriers. */
static void take(struct mst_xla_op *op)
{
    struct mst_xla_task *task = op->task;

    if (task->taken_count < TAKEN_MAX) {
        op->taken = true;
        mst_list_append(&task->taken, &op->in_task);
        task->taken_count++;
    }
}

/* The service has heard, unless it refused the round for lack of room: then it hears again. */
static void carried(struct mst_xla_op *op, const struct mst_reply *reply)
{
    bool again = reply->status == MUSTER_ELIMIT || reply->status == MUSTER_ENOMEM ||
                 reply->status == MUSTER_ENOSPACE;
    struct mst_list *node;

    while ((node = mst_list_take(&op->carried)) != NULL) {
        struct mst_xla_op *other = MST_CONTAINER(node, struct mst_xla_op, in_task);

        other->taken = false;
        if (again) {
            take(other);
        }
        if (!other->taken) {
            mst_xla_op_free(other);
        }
    }
}

/* Posts it, and all that is taken with it but its own name. */
static void post(struct mst_xla_op *op)
{
    struct mst_xla_task *task = op->task;
    uint32_t count = 0;

    op->names = mst_mem_array(&task->front->mem, task->taken_count + 1, sizeof *op->names);
    MST_EACH(other, &task->taken, struct mst_xla_op, in_task) {
        bool same = mst_slice_equal(other->request.round.name, op->request.round.name);

        if (!op->names && !same) {
            continue;
        }
        mst_list_remove(&other->in_task);
        task->taken_count--;
        if (same) {
            mst_xla_op_free(other);
        } else {
            op->names[count++] = other->request.round.name;
            mst_list_append(&op->carried, &other->in_task);
        }
    }
    op->request.round.taken = op->names;
    op->request.round.taken_count = count;
    mst_xla_op_post(op);
}

/* ---- Barrier ---- */

static int round_order(const void *key, const struct mst_tree_node *node)
{
    const struct mst_xla_op *op = MST_CONTAINER_CONST(node, struct mst_xla_op, by_name);

    return mst_slice_compare(*(const struct mst_slice *)key, op->request.round.name);
}

/* prefix and the rest; what is too long for a name of a round ends in a digest. */
static struct mst_slice keep_name(struct mst_xla_op *op, struct mst_slice prefix,
                                  struct mst_slice rest)
{
    uint64_t most = mst_later(op->task->front->config.limits.name_bytes_max, NAME_LEAST);
    char *room = mst_xla_op_room(op, prefix.size + rest.size + DIGEST_ROOM);
    size_t size = prefix.size;

    memcpy(room, prefix.data, size);
    if (size + rest.size > most) {
        size_t kept = (size_t)most - size - DIGEST_ROOM;

        memcpy(room + size, rest.data, kept);
        size += kept;
        size += mst_text_print(room + size, DIGEST_ROOM, "~%016" PRIx64,
                               mst_digest_slice(MST_DIGEST_INIT, rest));
    } else if (rest.size > 0) {
        memcpy(room + size, rest.data, rest.size);
        size += rest.size;
    }
    return mst_slice_of(room, size);
}

static void barrier_done(struct mst_xla *front, struct mst_xla_op *op,
                         const struct mst_reply *reply)
{
    struct mst_xla_error error;

    (void)front;
    carried(op, reply);
    if (reply->status == MUSTER_OK) {
        mst_xla_answer_all(&op->calls, &(struct mst_xla_reply){.counter = op->counter});
        take(op);
        return;
    }
    error = barrier_error(op, reply);
    mst_xla_refuse_all(&op->calls, &error);
}

static struct mst_xla_op *round_new(const struct mst_xla_call *call, struct mst_xla_task *task,
                                    const struct mst_xla_request *request, size_t extra,
                                    mst_xla_replied *replied)
{
    size_t size = said_count(call, request) * sizeof(uint32_t) + 2 * request->key.size + NAME_ROOM +
                  extra + SPACES;
    struct mst_xla_op *op = mst_xla_op_new(task, MST_ROUND, size, replied);

    if (op) {
        op->stays = true;
        op->counter = request->counter;
        op->request.round.generation = task->generation;
        op->request.round.number = request->counter;
    }
    return op;
}

static void refuse_barrier(struct mst_xla_call *call, const struct mst_xla_request *request,
                           struct mst_xla_error error)
{
    error.has_barrier = true;
    error.barrier = (struct mst_xla_barrier_error){request->key, request->counter};
    mst_xla_refuse(call, &error);
}

/* A call of the same task for the same round waits in its place. */
static bool supersedes(struct mst_xla_op *op, struct mst_xla_call *call)
{
    struct mst_xla_task *task = op->task;
    struct mst_tree_node *node = mst_tree_find(&task->rounds, &op->request.round.name);
    struct mst_xla_op *other = MST_CONTAINER_OR_NULL(node, struct mst_xla_op, by_name);
    struct mst_xla_error error;

    if (other && other->counter == op->counter) {
        error = mst_xla_error_of(MST_XLA_CANCELLED, "task %u calls the barrier again", task->index);
        error.plain = true;
        mst_xla_refuse_all(&other->calls, &error);
        mst_xla_op_wait(other, call);
        mst_xla_op_free(op);
        return true;
    }
    if (!other) {
        (void)mst_tree_insert(&task->rounds, &op->request.round.name, &op->by_name);
    }
    return false;
}

/* False: the call is refused. */
static bool admits(struct mst_xla_call *call, const struct mst_xla_task *task,
                   const struct mst_xla_request *request, const struct indices *indices)
{
    uint32_t size = task->front->config.size;
    struct mst_slice id = shown(request->key);
    struct mst_xla_error error;

    if (indices->count != indices->said) {
        error = mst_xla_error_of(MST_XLA_INVALID_ARGUMENT,
                                 "Conflicting tasks specified for barrier %.*s::%" PRIu64
                                 ": a task is there twice",
                                 MST_SLICE_ARGS(id), request->counter);
    } else if (!has_index(indices, task->index)) {
        error = mst_xla_error_of(MST_XLA_INVALID_ARGUMENT,
                                 "A non-participating task (%u) called the barrier: %.*s::%" PRIu64,
                                 task->index, MST_SLICE_ARGS(id), request->counter);
    } else if (size > 0 && indices->count > 0 && indices->at[indices->count - 1] >= size) {
        error = mst_xla_error_of(MST_XLA_INVALID_ARGUMENT,
                                 "task %u of barrier %.*s is not in the cluster",
                                 indices->at[indices->count - 1], MST_SLICE_ARGS(id));
    } else {
        return true;
    }
    refuse_barrier(call, request, error);
    return false;
}

void mst_xla_barrier(struct mst_xla_call *call, struct mst_xla_task *task,
                     const struct mst_xla_request *request)
{
    struct mst_xla_op *op;
    struct indices indices;

    if (request->key.size > ID_MAX) {
        struct mst_xla_error error = mst_xla_error_of(
            MST_XLA_INVALID_ARGUMENT, "Barrier: an id of %zu bytes, and the limit is %d",
            request->key.size, (int)ID_MAX);

        mst_xla_refuse(call, &error);
        return;
    }
    op = round_new(call, task, request, 0, barrier_done);
    if (!op) {
        refuse_barrier(call, request,
                       mst_xla_error_of(MST_XLA_RESOURCE_EXHAUSTED, "Barrier: no memory"));
        return;
    }
    indices = keep_indices(op, call, request);
    if (!admits(call, task, request, &indices)) {
        mst_xla_op_free(op);
        return;
    }
    op->name = mst_xla_op_keep(op, request->key);
    op->request.round.name = keep_name(op, mst_slice_text("xla/"), request->key);
    op->request.round.participants = indices.count > 0 ? indices.at : NULL;
    op->request.round.participant_count = indices.count;
    op->request.round.deadline_ms = request->timeout_ms > 0 ? request->timeout_ms : 1;
    op->request.round.any_deadline = true; /* later ones do not count */
    op->request.round.on_loss = MST_FAIL;
    if (!supersedes(op, call)) {
        mst_xla_op_wait(op, call);
        post(op);
    }
}

/* ---- GetAliveTasks ---- */

/* How many rounds of a name the task has had. */
struct count {
    struct mst_tree_node by_name;
    uint64_t generation, number;
    size_t size;
    char name[];
};

static int count_order(const void *key, const struct mst_tree_node *node)
{
    const struct count *count = MST_CONTAINER_CONST(node, struct count, by_name);

    return mst_slice_compare(*(const struct mst_slice *)key,
                             mst_slice_of(count->name, count->size));
}

void mst_xla_rounds_init(struct mst_xla_task *task)
{
    mst_tree_init(&task->rounds, round_order);
    mst_tree_init(&task->counts, count_order);
    mst_list_init(&task->taken);
}

void mst_xla_rounds_fini(struct mst_xla_task *task)
{
    struct mst_tree_node *node;

    MST_EACH(op, &task->taken, struct mst_xla_op, in_task) {
        mst_list_remove(&op->in_task);
        mst_xla_op_free(op);
    }
    while ((node = mst_tree_first(&task->counts)) != NULL) {
        mst_tree_remove(&task->counts, node);
        mst_mem_release(&task->front->mem, MST_CONTAINER(node, struct count, by_name));
    }
}

/* NULL: no memory. */
static struct count *count_of(struct mst_xla_task *task, struct mst_slice name)
{
    const struct mst_mem *mem = &task->front->mem;
    struct mst_tree_node *node = mst_tree_find(&task->counts, &name);
    struct count *count = MST_CONTAINER_OR_NULL(node, struct count, by_name);

    if (!count) {
        count = mst_mem_zalloc(mem, sizeof *count + name.size);
        if (!count) {
            return NULL;
        }
        count->size = name.size;
        memcpy(count->name, name.data, name.size);
        (void)mst_tree_insert(&task->counts, &name, &count->by_name);
    }
    if (count->generation != task->generation) {
        count->generation = task->generation;
        count->number = 0;
    }
    return count;
}

static void answer_living(struct mst_xla *front, struct mst_xla_op *op,
                          const struct mst_reply *reply)
{
    uint32_t room = reply->item_count + 1;
    uint32_t *ids = mst_mem_array(&front->mem, room, sizeof *ids);
    struct mst_xla_place *places = mst_mem_array(&front->mem, room, sizeof *places);
    unsigned char *incarnations = mst_mem_array(&front->mem, room, INCARNATION);
    struct mst_xla_reply answer = {.ids = ids, .places = places};

    for (uint32_t i = 0; ids && places && incarnations && i < reply->item_count; i++) {
        const struct mst_item *item = &reply->items[i];

        if (item->kind == MST_ITEM_PART && item->value.size == INCARNATION) {
            ids[answer.id_count] = item->who.index;
            places[answer.id_count].id = item->who.index;
            memcpy(incarnations + (size_t)answer.id_count * INCARNATION, item->value.data,
                   INCARNATION);
            answer.id_count++;
        }
    }
    answer.place_count = answer.id_count;
    answer.incarnations =
        mst_slice_of(incarnations, incarnations ? (size_t)answer.id_count * INCARNATION : 0);
    if (ids && places && incarnations) {
        mst_xla_answer_all(&op->calls, &answer);
    } else {
        struct mst_xla_error error =
            mst_xla_error_of(MST_XLA_RESOURCE_EXHAUSTED, "GetAliveTasks: no memory");

        mst_xla_refuse_all(&op->calls, &error);
    }
    mst_mem_release(&front->mem, ids);
    mst_mem_release(&front->mem, places);
    mst_mem_release(&front->mem, incarnations);
}

static void alive_done(struct mst_xla *front, struct mst_xla_op *op, const struct mst_reply *reply)
{
    struct count *count = count_of(op->task, op->request.round.name);
    struct mst_xla_error error;

    carried(op, reply);
    if (count) {
        count->number = op->counter + 1;
    }
    if (reply->status == MUSTER_OK) {
        answer_living(front, op, reply);
        take(op);
        return;
    }
    error = mst_xla_error_native("GetAliveTasks", reply);
    mst_xla_refuse_all(&op->calls, &error);
}

/* 0,1,2 */
static struct mst_slice keep_list(struct mst_xla_op *op, const struct indices *indices)
{
    enum { DIGITS = 12 };
    size_t room = (size_t)indices->count * DIGITS + DIGITS, size = 0;
    char *list = mst_xla_op_room(op, room);

    for (uint32_t i = 0; i < indices->count; i++) {
        size += mst_text_print(list + size, room - size, i == 0 ? "%u" : ",%u", indices->at[i]);
    }
    return mst_slice_of(list, size);
}

static void keep_incarnation(struct mst_xla_op *op)
{
    unsigned char bytes[INCARNATION];

    for (unsigned i = 0; i < INCARNATION; i++) {
        bytes[i] = (unsigned char)(op->task->incarnation >> (8 * i));
    }
    op->request.round.data = mst_xla_op_keep(op, mst_slice_of(bytes, sizeof bytes));
}

static void call_living(struct mst_xla_op *op, struct mst_xla_call *call)
{
    struct mst_xla_task *task = op->task;
    struct mst_tree_node *node = mst_tree_find(&task->rounds, &op->request.round.name);
    struct mst_xla_op *other = MST_CONTAINER_OR_NULL(node, struct mst_xla_op, by_name);
    struct count *count = count_of(task, op->request.round.name);

    if (other) { /* all calls of the task get the same answer */
        mst_xla_op_wait(other, call);
        mst_xla_op_free(op);
        return;
    }
    op->counter = count ? count->number : 0;
    op->request.round.number = op->counter;
    (void)mst_tree_insert(&task->rounds, &op->request.round.name, &op->by_name);
    mst_xla_op_wait(op, call);
    post(op);
}

void mst_xla_alive(struct mst_xla_call *call, struct mst_xla_task *task,
                   const struct mst_xla_request *request)
{
    enum { DIGITS = 12 };
    size_t list = ((size_t)said_count(call, request) + 1) * DIGITS;
    struct mst_xla_op *op = round_new(call, task, request, 2 * list + INCARNATION, alive_done);
    struct mst_xla_error error;
    struct indices indices;

    if (!op) {
        error = mst_xla_error_of(MST_XLA_RESOURCE_EXHAUSTED, "GetAliveTasks: no memory");
        mst_xla_refuse(call, &error);
        return;
    }
    indices = keep_indices(op, call, request);
    if (indices.said == 0 || !has_index(&indices, task->index)) {
        error = mst_xla_error_of(MST_XLA_INVALID_ARGUMENT,
                                 "GetAliveTasks: the requesting task %u is not one of the tasks",
                                 task->index);
        error.plain = true;
        mst_xla_op_free(op);
        mst_xla_refuse(call, &error);
        return;
    }
    op->request.round.name = keep_name(op, mst_slice_text("xla-alive/"), keep_list(op, &indices));
    op->request.round.participants = indices.at;
    op->request.round.participant_count = indices.count;
    op->request.round.present_only = true;
    op->request.round.on_loss = MST_PROCEED;
    op->request.round.reduce = MST_REDUCE_GATHER;
    keep_incarnation(op);
    call_living(op, call);
}
