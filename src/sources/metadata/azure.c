/* SPDX-License-Identifier: Apache-2.0 */
/* The document of scheduled events, once per second; the first request arms the service and may
 * take minutes. Events of other machines are in it too, so this one's name is asked for beside it.
 */
#include "base/text.h"
#include "sources/metadata/date.h"
#include "sources/metadata/part.h"

enum { EVENTS, NAME };

enum { PERIOD_MS = 1000, FIRST_MS = 150000, LATER_MS = 10000 };

static const char header[] = "Metadata: true";

void mst_azure_ask(const struct mst_metadata *metadata, uint32_t lane,
                   struct mst_metadata_request *out)
{
    const struct mst_azure *azure = &metadata->azure;

    memcpy(out->headers[0], header, sizeof header);
    if (lane == NAME) {
        mst_text_print(out->path, sizeof out->path,
                       "/metadata/instance/compute/name?api-version=2021-02-01&format=text");
        out->wait_ms = azure->name[0] ? MST_METADATA_NEVER : azure->name_wait_ms;
        return;
    }
    mst_text_print(out->path, sizeof out->path, "/metadata/scheduledevents?api-version=2020-07-01");
    out->wait_ms = azure->wait_ms;
    out->timeout_ms = azure->armed ? LATER_MS : FIRST_MS;
}

static void take_name(struct mst_metadata *metadata, const struct mst_metadata_answer *answer)
{
    struct mst_azure *azure = &metadata->azure;

    if (answer->failure == MST_METADATA_ANSWERED && answer->status == 200 &&
        mst_metadata_word(mst_metadata_trimmed(answer->body), "-_.", azure->name,
                          sizeof azure->name)) {
        return;
    }
    azure->name_failed = true;
    azure->name_wait_ms = MST_METADATA_RETRY_MS;
}

/* ---- events ---- */

static bool ends_machine(struct mst_slice type)
{
    return mst_slice_is(type, "Preempt") || mst_slice_is(type, "Terminate") ||
           mst_slice_is(type, "Reboot") || mst_slice_is(type, "Redeploy");
}

static bool is_own(const struct mst_azure *azure, const json_t *event)
{
    const json_t *resources = json_object_get(event, "Resources");
    size_t i;
    json_t *resource;

    json_array_foreach(resources, i, resource)
    {
        const char *name = json_string_value(resource);

        if (name && mst_metadata_same_name(name, azure->name)) {
            return true;
        }
    }
    return false;
}

/* Without the own name an event may be another machine's: it is only reported. */
static void say_event(struct mst_metadata *metadata, const json_t *event)
{
    const struct mst_azure *azure = &metadata->azure;
    struct mst_slice type = mst_metadata_field(event, "EventType");
    struct mst_slice description = mst_metadata_field(event, "Description");
    char array[MST_METADATA_TEXT];
    bool is_started = mst_slice_is(mst_metadata_field(event, "EventStatus"), "Started");
    int64_t deadline_ms = 0;

    if (azure->name[0] && !is_own(azure, event)) {
        return;
    }
    (void)mst_date_gmt(mst_metadata_field(event, "NotBefore"), &deadline_ms);
    mst_text_print(
        array, sizeof array, "scheduled event: %.*s%s%s%s%.*s", MST_SLICE_ARGS(type),
        azure->name[0] ? "" : ", perhaps of another machine: the name of this one is not known",
        is_started ? ", started" : "", description.size > 0 ? ": " : "",
        MST_SLICE_ARGS(description));
    mst_metadata_said(metadata,
                      &(struct mst_metadata_said){.id = mst_metadata_field(event, "EventId"),
                                                  .certain = azure->name[0] && ends_machine(type),
                                                  .deadline_ms = deadline_ms,
                                                  .assumed_ms = -1,
                                                  .text = array});
}

static bool is_event(const json_t *event)
{
    return mst_metadata_field(event, "EventId").size > 0 &&
           mst_metadata_field(event, "EventType").size > 0;
}

static bool take_document(struct mst_metadata *metadata, const json_t *root)
{
    const json_t *events = json_object_get(root, "Events");
    size_t i;
    json_t *event;

    if (!json_is_integer(json_object_get(root, "DocumentIncarnation")) || !json_is_array(events)) {
        return false;
    }
    json_array_foreach(events, i, event)
    {
        if (!is_event(event)) {
            return false;
        }
    }
    if (!metadata->azure.name[0] && !metadata->azure.name_failed && i > 0) {
        return true; /* the name is on its way */
    }
    mst_metadata_begin(metadata, EVENTS);
    json_array_foreach(events, i, event)
    {
        say_event(metadata, event);
    }
    mst_metadata_end(metadata);
    return true;
}

void mst_azure_take(struct mst_metadata *metadata, uint32_t lane,
                    const struct mst_metadata_answer *answer)
{
    struct mst_azure *azure = &metadata->azure;
    json_t *root;

    if (lane == NAME) {
        take_name(metadata, answer);
        return;
    }
    azure->wait_ms = MST_METADATA_RETRY_MS;
    azure->armed = false;
    if (answer->failure != MST_METADATA_ANSWERED || answer->status != 200) {
        mst_metadata_unknown(metadata, answer, NULL);
        return;
    }
    root = mst_metadata_json(answer->body);
    if (take_document(metadata, root)) {
        azure->armed = true;
        azure->wait_ms = PERIOD_MS;
        mst_metadata_known(metadata);
    } else {
        mst_metadata_unknown(metadata, answer, "no document of scheduled events");
    }
    json_decref(root);
}
