/* SPDX-License-Identifier: Apache-2.0 */
/* The metadata service of a cloud answers anything, in any order: malformed, cut or hostile. The
 * next request is a request all the same; every message for people is one line; only a good
 * answer withdraws a notice.
 *
 * The first byte says which cloud; then each answer is: lane, what it is, its headers if it has
 * any, its size, its body.
 *
 * behaviour: fuzzing / Fuzzing, races, leaks */
#include <string.h>

#include "base/panic.h"
#include "bytes.h"
#include "fuzz.h"
#include "sources/metadata/date.h"
#include "sources/metadata/metadata.h"

enum { HEADER = 32, ANSWERS = 64, WAIT_MAX_MS = 60000, ANSWER_MAX_MS = 150000 };

struct heard {
    bool good;          /* the answer at hand may withdraw something */
    uint32_t notices;   /* of one answer */
    uint32_t withdrawn; /* of one answer */
};

static void whole_line(const char *text, size_t room)
{
    const char *end = memchr(text, '\0', room);

    MST_ASSERT(end);
    for (; text < end; text++) {
        MST_ASSERT((unsigned char)*text >= ' ');
    }
}

static void tell(void *ctx, const struct mst_metadata_event *event)
{
    struct heard *heard = ctx;

    whole_line(event->text, sizeof event->text);
    whole_line(event->id, sizeof event->id);
    MST_ASSERT(event->left_ms >= -1);
    if (event->kind == MST_METADATA_NOTICE) {
        MST_ASSERT(heard->good && event->id[0]);
        MST_ASSERT(event->assumed || event->left_ms > 0);
        heard->notices++;
    } else if (event->kind == MST_METADATA_WITHDRAWN) {
        MST_ASSERT(heard->good && event->id[0]);
        heard->withdrawn++;
    }
    MST_ASSERT(heard->withdrawn <= MST_METADATA_TOLD);
}

/* What libcurl would send as it stands. */
static void check_request(const struct mst_metadata *machine, uint32_t lane)
{
    struct mst_metadata_request request;

    mst_metadata_ask(machine, lane, &request);
    MST_ASSERT(request.path[0] == '/' && !strchr(request.path, ' '));
    whole_line(request.path, sizeof request.path);
    for (uint32_t i = 0; i < MST_METADATA_HEADERS; i++) {
        whole_line(request.headers[i], sizeof request.headers[i]);
    }
    MST_ASSERT(request.wait_ms >= MST_METADATA_NEVER && request.wait_ms <= WAIT_MAX_MS);
    MST_ASSERT(request.timeout_ms > 0 && request.timeout_ms <= ANSWER_MAX_MS);
}

/* 200 most often: the rest is read by its status alone. */
static void some_answer(struct fuzz_bytes *input, struct mst_metadata_answer *answer,
                        char headers[4][HEADER])
{
    static const uint32_t statuses[] = {200, 200, 200, 200, 404, 401, 403, 503, 500, 302, 400, 0};
    uint8_t what = fuzz_u8(input);

    memset(answer, 0, sizeof *answer);
    answer->failure =
        what % 16 == 15 ? (enum mst_metadata_failure)(what / 16 % 5) : MST_METADATA_ANSWERED;
    answer->status = statuses[what % 16 % 12];
    for (uint32_t i = 0; i < 4; i++) {
        headers[i][0] = '\0';
        if (what & 0x80) {
            fuzz_text(input, fuzz_u8(input) % HEADER, headers[i], HEADER);
        }
    }
    if (!(what & 0x80)) {
        memcpy(headers[0], "e7", 3);
        memcpy(headers[1], "Google", 7);
    }
    answer->etag = mst_slice_text(headers[0]);
    answer->flavor = mst_slice_text(headers[1]);
    answer->token_ttl = mst_slice_text(headers[2]);
    answer->date = mst_slice_text(headers[3]);
    answer->body = fuzz_slice(input, fuzz_number(input, 2));
}

static void answers(struct fuzz_bytes *input, enum mst_metadata_source source)
{
    static struct mst_metadata machine;
    struct heard heard = {0};
    struct mst_metadata_answer answer;
    struct mst_metadata_event worst;
    char headers[4][HEADER];
    uint64_t clock_ms = 1000;
    int64_t wall_ms = 1803873600000;

    mst_metadata_init(&machine, source, tell, &heard);
    for (uint32_t i = 0; i < ANSWERS && input->left > 0; i++) {
        uint32_t lane = (uint32_t)fuzz_below(input, mst_metadata_lanes(&machine));

        check_request(&machine, lane);
        some_answer(input, &answer, headers);
        answer.clock_ms = clock_ms += 1000;
        answer.wall_ms = wall_ms += 1000;
        heard = (struct heard){.good = answer.failure == MST_METADATA_ANSWERED &&
                                       (answer.status == 200 || answer.status == 404)};
        mst_metadata_take(&machine, lane, &answer);
        check_request(&machine, lane);
        MST_ASSERT(!mst_metadata_worst(&machine, clock_ms, &worst) || worst.id[0]);
    }
}

/* A date is read the same with a copy of it, and in no other way than one of the two. */
static void date(struct fuzz_bytes *input)
{
    struct mst_slice text = fuzz_slice(input, HEADER);
    int64_t first_ms = -1, second_ms = -1;
    bool first = mst_date_rfc3339(text, &first_ms), second = mst_date_gmt(text, &second_ms);

    MST_ASSERT(!first || !second);
    MST_ASSERT(first || first_ms == -1);
    MST_ASSERT(second || second_ms == -1);
    MST_ASSERT(!second || (second_ms >= 0 && second_ms % 1000 == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_bytes input = {.at = data, .left = size};
    uint64_t what = fuzz_below(&input, MST_METADATA_SOURCES + 1);

    if (what == MST_METADATA_SOURCES) {
        date(&input);
    } else {
        answers(&input, (enum mst_metadata_source)what);
    }
    return 0;
}
