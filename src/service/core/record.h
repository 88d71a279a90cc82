/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_CORE_RECORD_H
#define MST_SERVICE_CORE_RECORD_H

/* The faults of a generation, in order of arrival: the first fault of each rank, and its loss or
 * leave. One exception: the death of a process stands before the failures of its peers that were
 * reported a moment earlier, since a broken connection is often noticed before the agent has
 * reported the death (proto/secondary.h). So the first one is the cause. The first few are kept in
 * full, of the others the number. So keeping one allocates nothing, and a thousand losses cost no
 * more than eight. When the generation is sealed they become the job's last records, which explain
 * the restart to the next generation. A generation that ended without any, because of newcomers,
 * leaves the last records as they are: a replacement often joins a moment after the loss, and users
 * ask for its cause later. */

#include "service/core/member.h"

struct mst_record {
    struct mst_who who; /* as it was; but for state, heard_ms and host: mst_record_who */
    uint64_t at_ns;
    uint32_t told_by; /* 1 + the agent; 0: the rank itself or the service */
    bool gone;        /* a loss or a leave, no fault */
    struct mst_blob *host, *text;
};

struct mst_records {
    uint64_t generation; /* they are of; 0: there was none */
    uint64_t begun_ns;   /* when that one was sealed */
    uint64_t total;
    uint32_t count; /* of `first` */
    struct mst_record first[MST_NAMES_MAX];
};

/* Their numbers agree, and their times are in order and before `now_ns`. */
bool mst_records_sane(const struct mst_records *records, uint64_t now_ns);

/* Of the current holder. `gone`: it is lost or left; else it has a fault. */
void mst_record_add(struct mst_member *member, const struct mst_loss *told, bool gone);

/* Of the generation, and of no rank in it. At most one is kept: false if there is one. */
bool mst_record_nobody(struct mst_job *job, const struct mst_loss *told);

/* LOST for a process whose death was recorded as GONE, in this generation or the previous one; the
 * place may have any holder now. */
void mst_record_refine(const struct mst_session *teller, const struct mst_request *request,
                       const struct mst_loss *loss);

/* The generation ends, and `job->generation` is the next one. Allocates nothing. `restarted`: it is
 * counted as a restart. */
void mst_record_seal(struct mst_job *job, bool restarted);

/* The generation ended, and its records with it. */
void mst_record_clear(struct mst_job *job);

/* Counts a restart, whose cause may still be refined, by the known cause. */
void mst_record_count(struct mst_job *job);

/* As replies show it. */
struct mst_who mst_record_who(const struct mst_job *job, const struct mst_record *record);
void mst_record_fill(const struct mst_job *job, const struct mst_records *records,
                     const struct mst_record *record, struct mst_item *item);
/* Whether the last records are of the generation that ended by the seal of this view; false if that
 * one only grew. `stood`: the receiver arrived at that seal, with or without a rank. */
bool mst_record_belongs(const struct mst_job *job, const struct mst_view *view, bool stood);

uint32_t mst_record_total(const struct mst_records *records); /* at most UINT32_MAX */

/* Milliseconds since the present generation was sealed, or from then to a moment. */
uint64_t mst_record_age_ms(const struct mst_job *job);
uint32_t mst_record_after_ms(const struct mst_records *records, uint64_t at_ns);

#endif
