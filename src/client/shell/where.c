/* SPDX-License-Identifier: Apache-2.0 */
#include "client/shell/where.h"

#include <string.h>

#include "base/text.h"
#include "client/shell/environment.h"
#include "client/shell/handle.h"
#include "client/shell/launcher.h"
#include "discover/shell/surroundings.h"

muster_status mst_lib_where(struct mst_lib_where *out, struct muster_error *err)
{
    struct mst_discovery found;

    bool sound;

    *out = (struct mst_lib_where){.launcher = MST_LAUNCHER_NONE};
    mst_environment_lock();
    sound = mst_surroundings_discover_by(&found, MST_ASKER_RANK, mst_environment_before);
    mst_environment_unlock();
    if (!sound) {
        return mst_lib_refuse(err, "open", found.why);
    }
    out->launcher = found.launcher;
    if (found.launcher == MST_LAUNCHER_NONE) {
        return MUSTER_OK;
    }
    out->launched = true;
    out->index = found.place.rank;
    out->size = found.place.size;
    out->single = found.place.size == 1;
    out->together = found.place.local_size == found.place.size;
    memcpy(out->job, found.place.job, sizeof(out->job));
    return MUSTER_OK;
}

void mst_lib_where_name(struct mst_lib_where *where)
{
    struct mst_text text;

    if (where->job[0] == '\0') {
        struct mst_lib_launcher launcher =
            mst_lib_launcher(mst_launcher_rank_variable(where->launcher));

        text = mst_text_in(where->job, sizeof(where->job));
        mst_text_add(&text, mst_launcher_word(where->launcher));
        mst_text_add(&text, "-");
        mst_text_i64(&text, launcher.pid);
        mst_text_add(&text, "-");
        mst_text_u64(&text, launcher.started);
    }
    text = mst_text_in(where->whose, sizeof(where->whose));
    mst_text_add(&text, "the ");
    mst_text_u64(&text, where->size);
    mst_text_add(&text, where->size == 1 ? " rank that " : " ranks that ");
    mst_text_add(&text, mst_launcher_name(where->launcher));
    mst_text_add(&text, " started here are job '");
    mst_text_add(&text, where->job);
    mst_text_add(&text, "'");
}

muster_status mst_lib_where_apart(const struct mst_lib_where *where, struct muster_error *err)
{
    char why[MST_DISCOVER_WHY_ROOM];
    struct mst_text text = mst_text_in(why, sizeof(why));

    mst_text_add(&text, "this is rank ");
    mst_text_u64(&text, where->index);
    mst_text_add(&text, " of ");
    mst_text_u64(&text, where->size);
    mst_text_add(&text, " (");
    mst_text_add(&text, mst_launcher_name(where->launcher));
    mst_text_add(&text, "), not all on this machine, and no MUSTER_ADDR says where their service "
                        "is: ");
    if (where->launcher == MST_LAUNCHER_SLURM) {
        mst_text_add(&text, "start them with `srun --ntasks-per-node=1 muster run -n N ...`, or ");
    }
    mst_text_add(&text, "start `muster serve --addr HOST:PORT` and set MUSTER_ADDR for all of "
                        "them");
    return mst_lib_refuse(err, "open", why);
}
