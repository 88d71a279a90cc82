/* SPDX-License-Identifier: Apache-2.0 */
/* The key-value store: keys of the generation, below xla/. */
#include "fronts/xla/machine.h"

/* SPACES: what aligning three pieces takes. */
enum { SPACES = 4 * sizeof(max_align_t), SHOWN_MAX = 1024, LISTED_MAX = 64 << 20 };

static const char prefix[] = "xla/";
enum { PREFIX_SIZE = sizeof prefix - 1 };

static int key_order(const void *key, const struct mst_tree_node *node)
{
    const struct mst_xla_op *op = MST_CONTAINER_CONST(node, struct mst_xla_op, by_name);

    return mst_slice_compare(*(const struct mst_slice *)key, op->request.get.key);
}

void mst_xla_keys_init(struct mst_xla_task *task)
{
    mst_tree_init(&task->gets, key_order);
}

/* As texts show a key. */
static struct mst_slice shown(struct mst_slice key)
{
    return mst_slice_of(key.data, key.size < SHOWN_MAX ? key.size : SHOWN_MAX);
}

static struct mst_slice without_prefix(struct mst_slice key)
{
    return mst_slice_from(key, PREFIX_SIZE);
}

static void refuse(struct mst_xla_call *call, enum mst_xla_code code, const char *words)
{
    struct mst_xla_error error =
        mst_xla_error_of(code, "%s: %s", mst_xla_method_name(call->method), words);

    mst_xla_refuse(call, &error);
}

struct mst_xla_error mst_xla_error_native(const char *attempt, const struct mst_reply *reply)
{
    enum mst_xla_code code = MST_XLA_INTERNAL;

    switch (reply->status) {
    case MUSTER_EINVAL:
        code = MST_XLA_INVALID_ARGUMENT;
        break;
    case MUSTER_ELIMIT:
    case MUSTER_ENOMEM:
    case MUSTER_ENOSPACE:
        code = MST_XLA_RESOURCE_EXHAUSTED;
        break;
    case MUSTER_ECANCELLED:
        code = MST_XLA_CANCELLED;
        break;
    case MUSTER_ETIMEDOUT:
        code = MST_XLA_DEADLINE_EXCEEDED;
        break;
    case MUSTER_EUNREACHABLE:
        code = MST_XLA_UNAVAILABLE;
        break;
    default:
        break;
    }
    if (reply->status == MUSTER_ELIMIT && reply->has_detail && reply->detail.limit > 0) {
        return mst_xla_error_of(code, "%s: %s of the service: %" PRId64, attempt,
                                mst_status_text(reply->status), reply->detail.limit);
    }
    return mst_xla_error_of(code, "%s: %s", attempt, mst_status_text(reply->status));
}

/* All calls of the op: a failure without a word of its own. */
static void refuse_native(struct mst_xla_op *op, const struct mst_reply *reply)
{
    struct mst_xla_call *call;

    while ((call = mst_xla_next_waiting(&op->calls)) != NULL) {
        struct mst_xla_error error = mst_xla_error_native(mst_xla_method_name(call->method), reply);

        mst_xla_refuse(call, &error);
    }
}

/* The name of a key in the service, or what the names below a folder begin with. Slashes at its
 * ends and behind slashes do not count. */
static struct mst_slice keep_key(struct mst_xla_op *op, struct mst_slice key, bool folder)
{
    char *room = mst_xla_op_room(op, PREFIX_SIZE + key.size + 1);
    const char *from = key.data;
    size_t size = PREFIX_SIZE;

    memcpy(room, prefix, PREFIX_SIZE);
    for (size_t i = 0; i < key.size; i++) {
        bool begins = i == 0 || from[i - 1] == '/';

        if (from[i] == '/') {
            continue;
        }
        if (begins && size > PREFIX_SIZE) {
            room[size++] = '/';
        }
        room[size++] = from[i];
    }
    room[size] = '/';
    return mst_slice_of(room, size + (folder ? 1 : 0));
}

static struct mst_xla_op *write_new(struct mst_xla_task *task, enum mst_write_kind kind,
                                    struct mst_slice key, struct mst_slice value,
                                    mst_xla_replied *replied)
{
    size_t size = sizeof(struct mst_write) + PREFIX_SIZE + key.size + value.size + SPACES;
    struct mst_xla_op *op = mst_xla_op_new(task, MST_WRITE, size, replied);
    struct mst_write *write;

    if (!op) {
        return NULL;
    }
    write = mst_xla_op_room(op, sizeof *write);
    *write = (struct mst_write){.kind = kind};
    write->key = keep_key(op, key, false);
    write->value = mst_xla_op_keep(op, value);
    op->request.write.generation = task->generation;
    op->request.write.ops = op->write = write;
    op->request.write.count = 1;
    op->stays = true; /* what was asked is done, also for a caller that is gone */
    return op;
}

static void post(struct mst_xla_op *op, struct mst_xla_call *call)
{
    if (!op) {
        refuse(call, MST_XLA_RESOURCE_EXHAUSTED, "no memory");
        return;
    }
    mst_xla_op_wait(op, call);
    mst_xla_op_post(op);
}

/* False: the call is refused. */
static bool is_key(struct mst_xla_call *call, struct mst_slice key)
{
    if (mst_slice_has_nul(key)) {
        refuse(call, MST_XLA_INVALID_ARGUMENT, "a key with a NUL");
        return false;
    }
    return true;
}

/* ---- InsertKeyValue, IncrementKeyValue ---- */

static void inserted(struct mst_xla *front, struct mst_xla_op *op, const struct mst_reply *reply)
{
    struct mst_slice key = without_prefix(op->request.write.ops->key);
    struct mst_xla_error error;

    (void)front;
    if (reply->status == MUSTER_OK) {
        mst_xla_answer_all(&op->calls, &(struct mst_xla_reply){0});
    } else if (reply->status == MUSTER_EEXISTS) {
        error = mst_xla_error_of(MST_XLA_ALREADY_EXISTS, "key %.*s already exists.",
                                 MST_SLICE_ARGS(shown(key)));
        error.plain = true;
        mst_xla_refuse_all(&op->calls, &error);
    } else {
        refuse_native(op, reply);
    }
}

void mst_xla_insert(struct mst_xla_call *call, struct mst_xla_task *task,
                    const struct mst_xla_request *request)
{
    if (is_key(call, request->kv.key)) {
        post(write_new(task, request->overwrite ? MST_PUT : MST_INSERT, request->kv.key,
                       request->kv.value, inserted),
             call);
    }
}

static void reply_number(struct mst_xla_op *op, int64_t number)
{
    char digits[32];
    struct mst_xla_reply answer = {.has_kv = true};

    answer.kv.key = op->name;
    answer.kv.value =
        mst_slice_of(digits, mst_text_print(digits, sizeof digits, "%" PRId64, number));
    mst_xla_answer_all(&op->calls, &answer);
}

/* A signed decimal number. */
static bool is_number(struct mst_slice value)
{
    const char *letters = value.data;
    bool negative = value.size > 0 && letters[0] == '-';
    uint64_t number;

    return mst_slice_number(mst_slice_from(value, negative ? 1 : 0),
                            (uint64_t)INT64_MAX + (negative ? 1 : 0), &number);
}

/* What the key has that could not be added to. */
static void looked_at(struct mst_xla *front, struct mst_xla_op *op, const struct mst_reply *reply)
{
    struct mst_xla_error error;

    (void)front;
    if (reply->status != MUSTER_OK) {
        refuse_native(op, reply);
        return;
    }
    error = is_number(reply->value)
                ? mst_xla_error_of(MST_XLA_OUT_OF_RANGE,
                                   "IncrementKeyValue: the sum of key %.*s is beyond 64 bits",
                                   MST_SLICE_ARGS(shown(op->name)))
                : mst_xla_error_of(MST_XLA_FAILED_PRECONDITION,
                                   "Failed to parse value of key %.*s as an integer",
                                   MST_SLICE_ARGS(shown(op->name)));
    mst_xla_refuse_all(&op->calls, &error);
}

static void incremented(struct mst_xla *front, struct mst_xla_op *op, const struct mst_reply *reply)
{
    struct mst_slice key = op->request.write.ops->key;

    (void)front;
    if (reply->status == MUSTER_OK) {
        reply_number(op, reply->number);
    } else if (reply->status == MUSTER_ERANGE) {
        op->request = (struct mst_request){.command = MST_GET};
        op->request.get.generation = op->task->generation;
        op->request.get.key = key;
        op->replied = looked_at;
        mst_xla_op_post(op);
    } else {
        refuse_native(op, reply);
    }
}

void mst_xla_increment(struct mst_xla_call *call, struct mst_xla_task *task,
                       const struct mst_xla_request *request)
{
    struct mst_xla_op *op;

    if (!is_key(call, request->key)) {
        return;
    }
    /* The value is where the client's name of the key is kept. */
    op = write_new(task, MST_ADD, request->key, request->key, incremented);
    if (op) {
        op->name = op->write->value;
        op->write->value = mst_slice_of(NULL, 0);
        op->write->delta = request->number;
    }
    post(op, call);
}

/* ---- GetKeyValue, TryGetKeyValue ---- */

static void got(struct mst_xla *front, struct mst_xla_op *op, const struct mst_reply *reply)
{
    struct mst_xla_reply answer = {.has_kv = true};
    struct mst_xla_error error;

    (void)front;
    answer.kv = (struct mst_xla_entry){op->name, reply->value};
    if (reply->status == MUSTER_OK) {
        mst_xla_answer_all(&op->calls, &answer);
    } else if (reply->status == MUSTER_ENOTFOUND) {
        error = mst_xla_error_of(MST_XLA_NOT_FOUND, "Config key %.*s not found.",
                                 MST_SLICE_ARGS(shown(op->name)));
        mst_xla_refuse_all(&op->calls, &error);
    } else {
        refuse_native(op, reply);
    }
}

/* Calls of one task that wait for the same key wait for the same native call: a client that gives
 * up leaves its call behind, and asks again. */
static bool joins(struct mst_xla_op *op, struct mst_xla_call *call, struct mst_xla_task *task)
{
    struct mst_tree_node *node = mst_tree_find(&task->gets, &op->request.get.key);
    struct mst_xla_op *other = MST_CONTAINER_OR_NULL(node, struct mst_xla_op, by_name);

    if (other && mst_slice_equal(other->name, op->name)) {
        mst_xla_op_wait(other, call);
        mst_xla_op_free(op);
        return true;
    }
    (void)mst_tree_insert(&task->gets, &op->request.get.key, &op->by_name);
    return false;
}

void mst_xla_get(struct mst_xla_call *call, struct mst_xla_task *task,
                 const struct mst_xla_request *request)
{
    size_t size = PREFIX_SIZE + 2 * request->key.size + SPACES;
    struct mst_xla_op *op;

    if (!is_key(call, request->key)) {
        return;
    }
    op = mst_xla_op_new(task, MST_GET, size, got);
    if (op) {
        op->name = mst_xla_op_keep(op, request->key);
        op->request.get.generation = task->generation;
        op->request.get.key = keep_key(op, request->key, false);
        op->request.get.wait = call->method == MST_XLA_GET;
        if (op->request.get.wait && joins(op, call, task)) {
            return;
        }
    }
    post(op, call);
}

/* ---- GetKeyValueDir, DeleteKeyValue ---- */

/* An entry of `listed`: two sizes, then the bytes. */
struct listed {
    size_t key, value;
};

static bool keep_items(struct mst_xla_op *op, const struct mst_reply *reply)
{
    for (uint32_t i = 0; i < reply->item_count; i++) {
        const struct mst_item *item = &reply->items[i];
        struct listed sizes = {item->name.size, item->value.size};

        if (item->kind != MST_ITEM_KEY) {
            continue;
        }
        if (!mst_buffer_append(&op->listed, mst_slice_of(&sizes, sizeof sizes)) ||
            !mst_buffer_append(&op->listed, item->name) ||
            !mst_buffer_append(&op->listed, item->value)) {
            return false;
        }
        op->listed_count++;
    }
    return true;
}

/* The entries of `listed`. NULL: no memory. */
static struct mst_xla_entry *entries_of(struct mst_xla *front, const struct mst_xla_op *op)
{
    struct mst_slice left = mst_buffer_content(&op->listed);
    struct mst_xla_entry *entries =
        mst_mem_array(&front->mem, op->listed_count + 1, sizeof *entries);

    for (uint32_t i = 0; entries && i < op->listed_count; i++) {
        struct listed sizes;

        MST_ASSERT(left.data && left.size >= sizeof sizes);
        memcpy(&sizes, left.data, sizeof sizes);
        left = mst_slice_from(left, sizeof sizes);
        entries[i].key = without_prefix(mst_slice_of(left.data, sizes.key));
        left = mst_slice_from(left, sizes.key);
        entries[i].value = mst_slice_of(left.data, sizes.value);
        left = mst_slice_from(left, sizes.value);
    }
    return entries;
}

static void refuse_size(struct mst_xla_op *op)
{
    struct mst_xla_error error = mst_xla_error_of(
        MST_XLA_RESOURCE_EXHAUSTED, "the keys below %.*s do not fit into one reply of %d bytes",
        MST_SLICE_ARGS(shown(op->name)), (int)LISTED_MAX);

    mst_xla_refuse_all(&op->calls, &error);
}

static void listed(struct mst_xla *front, struct mst_xla_op *op, const struct mst_reply *reply)
{
    struct mst_xla_reply answer = {0};
    struct mst_xla_entry *entries;

    if (reply->status != MUSTER_OK) {
        refuse_native(op, reply);
        return;
    }
    entries = NULL;
    if (!keep_items(op, reply) || (reply->next == 0 && !(entries = entries_of(front, op)))) {
        refuse_size(op);
        return;
    }
    if (reply->next != 0 && reply->item_count > 0) {
        mst_buffer_take(&op->after, mst_buffer_content(&op->after).size);
        if (!mst_buffer_append(&op->after, reply->items[reply->item_count - 1].name)) {
            refuse_size(op);
            return;
        }
        op->request.list.after = mst_buffer_content(&op->after);
        mst_xla_op_post(op);
        return;
    }
    answer.entries = entries;
    answer.entry_count = op->listed_count;
    mst_xla_answer_all(&op->calls, &answer);
    mst_mem_release(&front->mem, entries);
}

static struct mst_xla_op *list_new(struct mst_xla_task *task, struct mst_slice folder,
                                   mst_xla_replied *replied)
{
    size_t size = PREFIX_SIZE + 2 * folder.size + SPACES;
    struct mst_xla_op *op = mst_xla_op_new(task, MST_LIST, size, replied);

    if (op) {
        op->name = mst_xla_op_keep(op, folder);
        op->request.list.generation = task->generation;
        op->request.list.prefix = keep_key(op, folder, true);
        mst_buffer_init(&op->listed, &task->front->mem, LISTED_MAX);
        mst_buffer_init(&op->after, &task->front->mem, LISTED_MAX);
    }
    return op;
}

void mst_xla_list(struct mst_xla_call *call, struct mst_xla_task *task,
                  const struct mst_xla_request *request)
{
    if (is_key(call, request->key)) {
        post(list_new(task, request->key, listed), call);
    }
}

static void to_delete(struct mst_xla *front, struct mst_xla_op *op, const struct mst_reply *reply);

/* The page that was listed is deleted: the next one. */
static void deleted(struct mst_xla *front, struct mst_xla_op *op, const struct mst_reply *reply)
{
    if (reply->status != MUSTER_OK) {
        refuse_native(op, reply);
        return;
    }
    mst_mem_release(&front->mem, op->writes);
    op->writes = NULL;
    if (op->last) {
        mst_xla_answer_all(&op->calls, &(struct mst_xla_reply){0});
        return;
    }
    op->request = (struct mst_request){.command = MST_LIST};
    op->request.list.generation = op->task->generation;
    op->request.list.prefix = op->folder;
    op->replied = to_delete;
    mst_xla_op_post(op);
}

/* Deletes what is listed, at most a batch; and, with the last of it, the key itself. */
static void to_delete(struct mst_xla *front, struct mst_xla_op *op, const struct mst_reply *reply)
{
    uint32_t most = (uint32_t)front->config.limits.batch_max, count = reply->item_count;
    struct mst_xla_entry *entries = NULL;

    if (reply->status != MUSTER_OK) {
        refuse_native(op, reply);
        return;
    }
    op->last = reply->next == 0 && count < most;
    count = count < most ? count : most;
    mst_buffer_take(&op->listed, mst_buffer_content(&op->listed).size);
    op->listed_count = 0;
    op->writes = mst_mem_array(&front->mem, count + 1, sizeof *op->writes);
    if (!op->writes || !keep_items(op, reply) || !(entries = entries_of(front, op))) {
        mst_mem_release(&front->mem, op->writes);
        op->writes = NULL;
        refuse_size(op);
        return;
    }
    count = count < op->listed_count ? count : op->listed_count;
    for (uint32_t i = 0; i < count; i++) {
        op->writes[i] = (struct mst_write){.kind = MST_DELETE};
        op->writes[i].key = mst_slice_of((const char *)entries[i].key.data - PREFIX_SIZE,
                                         entries[i].key.size + PREFIX_SIZE);
    }
    if (op->last) {
        op->writes[count++] = (struct mst_write){
            .kind = MST_DELETE, .key = mst_slice_of(op->folder.data, op->folder.size - 1)};
    }
    mst_mem_release(&front->mem, entries);
    op->request = (struct mst_request){.command = MST_WRITE};
    op->request.write.generation = op->task->generation;
    op->request.write.ops = op->writes;
    op->request.write.count = count;
    op->replied = deleted;
    mst_xla_op_post(op);
}

void mst_xla_delete(struct mst_xla_call *call, struct mst_xla_task *task,
                    const struct mst_xla_request *request)
{
    struct mst_xla_op *op;

    if (is_key(call, request->key)) {
        op = list_new(task, request->key, to_delete);
        if (op) {
            op->folder = op->request.list.prefix;
            op->stays = true;
        }
        post(op, call);
    }
}

/* ---- a notice of preemption ---- */

static void noticed(struct mst_xla *front, struct mst_xla_op *op, const struct mst_reply *reply)
{
    if (reply->status != MUSTER_OK && reply->status != MUSTER_EEXISTS) {
        mst_xla_log(front, "jax: a notice of preemption did not reach task %u: %s", op->task->index,
                    mst_status_text(reply->status));
    }
}

/* JAX reads the time of the end in it, and until 15 minutes before that does nothing: deaf to an
 * earlier notice, and to its withdrawal. The agent gives a notice when it is due, so this one is of
 * a time that is over: at once. */
void mst_xla_notice(struct mst_xla *front)
{
    MST_TREE_EACH(task, &front->tasks, struct mst_xla_task, by_index) {
        struct mst_xla_op *op = NULL;

        if (task->stage != MST_XLA_HERE && task->stage != MST_XLA_LEAVING) {
            continue;
        }
        op = write_new(task, MST_INSERT, mst_slice_text("RECEIVED_PREEMPTION_NOTICE"),
                       mst_slice_text("infinite-past"), noticed);
        if (op) {
            mst_xla_op_post(op);
        }
        return;
    }
}
