/* SPDX-License-Identifier: Apache-2.0 */
#include "sources/slurm_words.h"

#include <string.h>

#define UNIX_SECONDS_MAX INT64_C(253402300799) /* the year 9999 */
#define JOB_ID_MAX 40u

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

enum mst_slurm_place mst_slurm_place(const char *job_id, const char *step_id)
{
    if (job_id == NULL || !mst_slurm_job_id(job_id)) {
        return MST_SLURM_NOWHERE;
    }
    return step_id != NULL && is_digit(*step_id) ? MST_SLURM_STEP : MST_SLURM_BATCH;
}

bool mst_slurm_end_time(const char *text, int64_t *unix_ms_out)
{
    int64_t seconds = 0;

    if (text == NULL || *text == '\0') {
        return false;
    }
    for (; is_digit(*text); text++) {
        seconds = seconds * 10 + (*text - '0');
        if (seconds >
            UNIX_SECONDS_MAX) { /* Slurm writes "no limit" as a number that is too large */
            return false;
        }
    }
    if (*text != '\0' || seconds == 0) {
        return false;
    }
    *unix_ms_out = seconds * 1000;
    return true;
}

bool mst_slurm_job_id(const char *text)
{
    size_t size = strlen(text);

    if (size == 0 || size > JOB_ID_MAX || !is_digit(*text)) {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        if (!is_digit(text[i]) && text[i] != '_' && text[i] != '+') {
            return false;
        }
    }
    return true;
}
