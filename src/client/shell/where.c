/* SPDX-License-Identifier: Apache-2.0 */
#include "client/shell/where.h"

#include "base/text.h"
#include "client/shell/environment.h"
#include "client/shell/handle.h"
#include "client/shell/sidecar/launcher.h"
#include "discover/shell/surroundings.h"

muster_status mst_lib_where(struct mst_lib_where *out, struct muster_error *err)
{
    struct mst_discovery found;
    bool sound;

    mst_environment_lock();
    sound = mst_surroundings_discover_by(&found, MST_ASKER_RANK, mst_environment_before);
    mst_environment_unlock();
    if (!sound) {
        return mst_lib_refuse(err, "open", "%s", found.why);
    }
    out->launcher = found.launcher;
    out->place = found.place;
    return MUSTER_OK;
}

void mst_lib_where_name(struct mst_lib_where *where)
{
    if (where->place.job[0] == '\0') {
        struct mst_lib_launcher launcher =
            mst_lib_launcher(mst_launcher_rank_variable(where->launcher));

        mst_text_print(where->place.job, sizeof(where->place.job), "%s-%d-%" PRIu64,
                       mst_launcher_word(where->launcher), launcher.pid, launcher.started);
    }
    mst_text_print(where->whose, sizeof(where->whose), "the %u%s%s started here are job '%s'",
                   where->place.size, where->place.size == 1 ? " rank that " : " ranks that ",
                   mst_launcher_name(where->launcher), where->place.job);
}

muster_status mst_lib_where_apart(const struct mst_lib_where *where, struct muster_error *err)
{
    return mst_lib_refuse(
        err, "open",
        "this is rank %u of %u (%s), not all on this machine, and no MUSTER_ADDR says where their "
        "service is: %sstart `muster serve --addr HOST:PORT` and set MUSTER_ADDR for all of them",
        where->place.rank, where->place.size, mst_launcher_name(where->launcher),
        where->launcher == MST_LAUNCHER_SLURM
            ? "start them with `srun --ntasks-per-node=1 muster run -n N ...`, or "
            : "");
}
