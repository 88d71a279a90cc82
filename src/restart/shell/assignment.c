/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/assignment.h"

#include "base/text.h"
#include "client/shell/handle.h"
#include "os/system.h"
#include "restart/assignment.h"

void muster_assignment_key_host(void *arg, const struct muster_place *place, char *key, size_t room)
{
    (void)arg;
    mst_text_print(key, room, "%s", place->host ? place->host : "");
}

void muster_assignment_key_node(void *arg, const struct muster_place *place, char *key, size_t room)
{
    struct mst_text text = mst_text_in(key, room);

    (void)arg;
    if (place->node != MUSTER_NUMBER_NONE) {
        mst_text_format(&text, "%u", place->node);
    }
}

/* A tree asks for the dead as well: they are where their last rank was. */
void muster_assignment_key_block(void *arg, const struct muster_place *place, char *key,
                                 size_t room)
{
    const uint32_t size = *(const uint32_t *)arg;
    const uint32_t number = place->number != MUSTER_NUMBER_NONE ? place->number : place->previous;
    struct mst_text text = mst_text_in(key, room);

    if (number != MUSTER_NUMBER_NONE) {
        mst_text_format(&text, "%u", size > 0 ? number / size : 0);
    }
}

void muster_assignment_key_all(void *arg, const struct muster_place *place, char *key, size_t room)
{
    (void)arg;
    (void)place;
    (void)room;
    key[0] = '\0';
}

void muster_assignment_key_label(void *arg, const struct muster_place *place, char *key,
                                 size_t room)
{
    const uint32_t parts = arg ? *(const uint32_t *)arg : 0;
    const char *label = place->label ? place->label : "";
    uint32_t ended = 0;
    size_t size = 0;

    while (label[size] != '\0' && (label[size] != '/' || ++ended != parts)) {
        size++;
    }
    mst_text_print(key, room, "%.*s", (int)size, label);
}

muster_status muster_assignment_try(const struct muster_assignment *assignment,
                                    struct muster_place *places, size_t count,
                                    struct muster_error *err)
{
    static const char what[] = "assignment";
    struct muster_assignment steps = MUSTER_ASSIGNMENT_INIT;
    char line[sizeof(err->text) - sizeof(what) - 2];
    struct mst_text why = mst_text_in(line, sizeof(line));
    muster_status status;

    if (!assignment || (!places && count > 0)) {
        return mst_lib_refuse(err, what, "there is none, or no places for it");
    }
    status =
        mst_lib_options(&steps, sizeof(steps), assignment, "MUSTER_ASSIGNMENT_INIT", err, what);
    if (status != MUSTER_OK) {
        return status;
    }
    status = mst_assignment_apply(steps.list, steps.count, places, count, &mst_system_mem, &why);
    if (status != MUSTER_OK) {
        (void)mst_fail(err, status, 0, "%s: %s", what, line);
    }
    return status;
}
