/* SPDX-License-Identifier: Apache-2.0 */
#include "tell.h"

#include <inttypes.h>
#include <string.h>

#include "proto/command.h"
#include "proto/status.h"
#include "proto/words.h"

/* ---- bytes and numbers ---- */

static void tell_bytes(FILE *out, struct mst_slice bytes)
{
    const unsigned char *byte = bytes.data;

    for (size_t i = 0; i < bytes.size; i++) {
        if (byte[i] < ' ' || byte[i] > '~') {
            (void)fprintf(out, "\\x%02x", byte[i]);
        } else {
            (void)fputc(byte[i], out);
        }
    }
}

static void tell_text(FILE *out, const char *before, struct mst_slice text)
{
    if (text.size > 0) {
        (void)fprintf(out, " %s\"", before);
        tell_bytes(out, text);
        (void)fputc('"', out);
    }
}

static void tell_vector(FILE *out, struct mst_slice bytes)
{
    const unsigned char *byte = bytes.data;

    for (size_t i = 0; i + 8 <= bytes.size; i += 8) {
        uint64_t number = 0;

        for (unsigned j = 0; j < 8; j++) {
            number |= (uint64_t)byte[i + j] << (8 * j);
        }
        (void)fprintf(out, "%s%" PRId64, i == 0 ? " value=" : ",", (int64_t)number);
    }
}

static void tell_number(FILE *out, const char *name, uint64_t number)
{
    if (number != 0) {
        (void)fprintf(out, " %s=%" PRIu64, name, number);
    }
}

static void tell_status(FILE *out, muster_status status)
{
    const char *name = mst_status_name(status);

    (void)fprintf(out, " %s", status == MUSTER_OK ? "ok" : name + strlen("MUSTER_"));
}

/* ---- members ---- */

static const char *role_word(enum mst_role role)
{
    switch (role) {
    case MST_ROLE_OBSERVER:
    case MST_ROLE_RANK:
        return "#";
    case MST_ROLE_WORKER:
        return "worker#";
    case MST_ROLE_AGENT:
        return "agent#";
    }
    return "?#";
}

static const char *state_word(enum mst_state state)
{
    switch (state) {
    case MST_JOINING:
        return " joining";
    case MST_PRESENT:
        return " present";
    case MST_SILENT:
        return " silent";
    case MST_STATE_LOST:
        return " lost";
    case MST_LEFT:
        return " left";
    case MST_SPARE:
        return " spare";
    case MST_ABSENT:
        return " absent";
    }
    return ""; /* a part of a gather says only who */
}

static void tell_who(FILE *out, const struct mst_who *who)
{
    (void)fprintf(out, "%s%" PRIu32 "%s", role_word(who->role), who->index, state_word(who->state));
    if (who->rank != MST_RANK_NONE) {
        (void)fprintf(out, " rank=%" PRIu32, who->rank);
    }
    tell_number(out, "incarnation", who->incarnation);
    if (who->cause != MST_CAUSE_NONE && who->cause != MST_CAUSE_LEFT) { /* the state says that */
        (void)fprintf(out, " cause=%s", mst_cause_word(who->cause));
    }
    if (who->code != 0) {
        (void)fprintf(out, " code=%" PRId32, who->code);
    }
    tell_number(out, "losses", who->losses);
    if (who->host.size > 0) {
        (void)fprintf(out, " host=");
        tell_bytes(out, who->host);
    }
    tell_number(out, "pid", who->pid);
    tell_number(out, "heard-ms", who->heard_ms);
}

/* ---- the parts of a reply ---- */

static void tell_view(FILE *out, const struct mst_view *view)
{
    static const char *const attention[] = {"calm", "grow", "interrupt"};

    (void)fprintf(out, " view={");
    if (view->index != MST_INDEX_ANY) {
        (void)fprintf(out, "#%" PRIu32 " ", view->index);
    }
    if (view->incarnation != 0) {
        (void)fprintf(out, "incarnation=%" PRIu64 " ", view->incarnation);
    }
    (void)fprintf(out, "generation=%" PRIu64 " size=%" PRIu32, view->generation, view->size);
    if (view->rank != MST_RANK_NONE) {
        (void)fprintf(out, " rank=%" PRIu32, view->rank);
    }
    tell_number(out, "faults", view->faults);
    (void)fprintf(out, " %s", attention[view->attention]);
    (void)fprintf(out, "%s%s}", view->spare ? " spare" : "", view->ordered ? " ordered" : "");
}

static void tell_counts(FILE *out, const struct mst_detail *detail)
{
    if (detail->arrived != 0 || detail->expected != 0) {
        (void)fprintf(out, " arrived=%" PRIu32 "/%" PRIu32, detail->arrived, detail->expected);
    }
    tell_number(out, "lost", detail->lost);
    tell_number(out, "missing", detail->missing);
    tell_number(out, "multiple", detail->multiple);
    if (detail->limit != 0) {
        (void)fprintf(out, " limit=%" PRId64, detail->limit);
    }
    tell_number(out, "limit-kind", detail->limit_kind);
    tell_number(out, "asked", detail->asked);
}

static void tell_round_of(FILE *out, const char *before, const struct mst_item *item)
{
    if (item->name.size > 0) {
        (void)fprintf(out, "%s", before);
        tell_bytes(out, item->name);
        (void)fprintf(out, "/%" PRIu64, item->number);
    }
}

static void tell_incident(FILE *out, const struct mst_item *item)
{
    static const char *const kinds[] = {
        [MST_INCIDENT_SEALED] = "sealed",       [MST_INCIDENT_LOST] = "lost",
        [MST_INCIDENT_NODE] = "node",           [MST_INCIDENT_FAULT] = "fault",
        [MST_INCIDENT_TOO_FEW] = "too-few",     [MST_INCIDENT_NOTICE] = "notice",
        [MST_INCIDENT_SAVED] = "saved",         [MST_INCIDENT_SERVICE] = "service",
        [MST_INCIDENT_STRAGGLER] = "straggler", [MST_INCIDENT_GROUP] = "group"};

    (void)fprintf(out, "%s", kinds[item->incident]);
    if (item->who.index != MST_INDEX_ANY) {
        (void)fprintf(out, " ");
        tell_who(out, &item->who);
    } else {
        tell_number(out, "heard-ms", item->who.heard_ms);
    }
    tell_number(out, "generation", item->number);
    tell_number(out, "before", item->arrived);
    tell_number(out, "after", item->expected);
    tell_number(out, "total", item->total);
    tell_number(out, "interrupt-ms", item->interrupt_ms);
    tell_number(out, "gather-ms", item->gather_ms);
    tell_number(out, "step", (uint64_t)item->step);
    if (item->told_by > 0) {
        (void)fprintf(out, " told-by=agent#%" PRIu32, item->told_by - 1);
    }
    tell_text(out, "", item->value);
}

static void tell_item(FILE *out, const struct mst_item *item, enum mst_command command)
{
    switch (item->kind) {
    case MST_ITEM_KEY:
        (void)fprintf(out, "key");
        tell_text(out, "", item->name);
        (void)fprintf(out, " =");
        tell_text(out, "", item->value);
        break;
    case MST_ITEM_DELETED:
        (void)fprintf(out, "deleted");
        tell_text(out, "", item->name);
        break;
    case MST_ITEM_MEMBER:
        (void)fprintf(out, "member ");
        tell_who(out, &item->who);
        if (command == MST_ROUND_MEMBERS) {
            (void)fprintf(out, item->arrived ? " arrived" : " not-arrived");
        }
        tell_round_of(out, " waits-at=", item);
        tell_text(out, "", item->value);
        break;
    case MST_ITEM_FAULT:
        (void)fprintf(out, "fault ");
        tell_who(out, &item->who);
        tell_number(out, "generation", item->number);
        tell_number(out, "after-ms", item->arrived);
        if (item->expected > 0) {
            (void)fprintf(out, " told-by=agent#%" PRIu32, item->expected - 1);
        }
        tell_text(out, "", item->value);
        break;
    case MST_ITEM_VIEW:
        (void)fprintf(out, "view");
        break;
    case MST_ITEM_RESET:
        (void)fprintf(out, "reset");
        break;
    case MST_ITEM_ROUND:
        tell_round_of(out, "round ", item);
        (void)fprintf(out, " arrived=%" PRIu32 "/%" PRIu32 " first-missing ", item->arrived,
                      item->expected);
        tell_who(out, &item->who);
        tell_number(out, "awaited", item->awaited);
        tell_number(out, "lost-ms", item->lost_ms);
        break;
    case MST_ITEM_PART:
        (void)fprintf(out, "part ");
        tell_who(out, &item->who);
        tell_text(out, "", item->value);
        break;
    case MST_ITEM_HOST:
        (void)fprintf(out, "host");
        tell_text(out, "", item->name);
        (void)fprintf(out, " lost=%" PRIu64 " ranks-lost=%" PRIu32 " members=%" PRIu32,
                      item->number, item->expected, item->arrived);
        break;
    case MST_ITEM_INCIDENT:
        tell_incident(out, item);
        break;
    case MST_ITEM_JOB:
        (void)fprintf(out, "job");
        tell_text(out, "", item->name);
        (void)fprintf(out, " generation=%" PRIu64 " present=%" PRIu32 " size=%" PRIu32,
                      item->number, item->arrived, item->expected);
        tell_number(out, "listening", item->listening);
        break;
    }
    tell_number(out, "revision", item->revision);
    (void)fputc('\n', out);
}

/* The numbers that mean something even when they are zero. */
static bool counts_from_zero(enum mst_command command)
{
    return command == MST_ROUND || command == MST_LOST || command == MST_CANCEL ||
           command == MST_CUT;
}

void tell_reply(FILE *out, const char *start, const struct mst_reply *reply, bool vector)
{
    const struct mst_detail *detail = &reply->detail;

    (void)fprintf(out, "%s%s", start, mst_command_name(reply->command));
    tell_status(out, reply->status);
    if (reply->number != 0 || counts_from_zero(reply->command)) {
        (void)fprintf(out, " number=%" PRId64, reply->number);
    }
    tell_number(out, "revision", reply->revision);
    tell_number(out, "next", reply->next);
    if (vector) {
        tell_vector(out, reply->value);
    } else {
        tell_text(out, "value=", reply->value);
    }
    if (reply->has_detail) {
        tell_counts(out, detail);
    }
    if (reply->has_view) {
        tell_view(out, &reply->view);
    }
    (void)fputc('\n', out);
    for (uint32_t i = 0; reply->has_detail && i < detail->who_count; i++) {
        (void)fprintf(out, "        ");
        tell_who(out, &detail->who[i]);
        (void)fputc('\n', out);
    }
    for (uint32_t i = 0; i < reply->item_count; i++) {
        (void)fprintf(out, "        ");
        tell_item(out, &reply->items[i], reply->command);
    }
}
