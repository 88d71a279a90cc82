/* SPDX-License-Identifier: Apache-2.0 */
/* The service's side of one native connection.
 *
 *   PREAMBLE --8 bytes--> HELLO --a version both speak, welcome--> REQUESTS
 *       |                   |                                         |
 *       +-------------------+---- anything else: dead ----------------+
 *
 * A refusal carries its reason, in a welcome of version 0 or, later, in a reply to no request: it
 * is in the output when the error is returned. A peer that does not begin with our six letters
 * speaks another protocol and gets no answer. */
#include "base/panic.h"
#include "proto/greeting.h"
#include "proto/limit_kinds.h"
#include "proto/native/native.h"

static const char service_name[] = "muster";

static muster_status refuse_welcome(struct mst_native_service *service)
{
    const struct mst_welcome message = {.service = mst_slice_text(service_name),
                                        .refusal = mst_slice_text(service->stream.reason)};
    size_t size;

    (void)mst_native_stream_put(&service->stream, &mst_welcome_fields, &message,
                                &size); /* it ends anyway */
    return service->stream.dead;
}

void mst_native_service_refuse(struct mst_native_service *service, const char *why)
{
    struct mst_native_stream *stream = &service->stream;

    stream->dead = MUSTER_EPROTO;
    mst_text_print(stream->reason, sizeof(stream->reason), "%s", why);
    (void)refuse_welcome(service);
}

static muster_status take_preamble(struct mst_native_service *service)
{
    struct mst_native_stream *stream = &service->stream;
    muster_status status =
        mst_native_stream_preamble(stream, mst_native_preamble, "client", "service");

    if (status == MUSTER_OK) {
        service->state = MST_NATIVE_HELLO;
    } else if (status == MUSTER_EPROTO && stream->offset == MST_NATIVE_PREAMBLE_SIZE - 1) {
        return refuse_welcome(service); /* another version of the framing: it can read that */
    }
    return status;
}

static muster_status welcome(struct mst_native_service *service)
{
    const struct mst_welcome message = {
        .version = MST_NATIVE_VERSION,
        .service = mst_slice_text(service_name),
        .frame_bytes_max = service->stream.frame_bytes_max,
        .key_bytes_max = service->key_bytes_max,
        .value_bytes_max = service->value_bytes_max,
        .contribution_bytes_max = service->contribution_bytes_max,
    };
    size_t size;

    return mst_native_stream_put(&service->stream, &mst_welcome_fields, &message, &size);
}

static muster_status refuse_hello(struct mst_native_service *service, const struct mst_hello *hello)
{
    if (hello->auth.size > 0) {
        (void)mst_native_stream_fail(&service->stream, MUSTER_EPROTO,
                                     "auth is not empty, but this service has no secret");
    } else {
        (void)mst_native_stream_fail(
            &service->stream, MUSTER_EPROTO,
            "the client '%.*s' speaks the versions %u to %u, this service %u",
            MST_SLICE_ARGS(hello->program), hello->version_min, hello->version_max,
            MST_NATIVE_VERSION);
    }
    return refuse_welcome(service);
}

static muster_status take_hello(struct mst_native_service *service)
{
    struct mst_hello hello;
    struct mst_wrong wrong;
    muster_status status =
        mst_native_stream_next(&service->stream, &mst_hello_fields, &hello, &wrong);

    if (status == MUSTER_EPROTO) {
        return refuse_welcome(service);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    if (hello.auth.size > 0 || hello.version_min > MST_NATIVE_VERSION ||
        hello.version_max < MST_NATIVE_VERSION) {
        return refuse_hello(service, &hello);
    }
    service->state = MST_NATIVE_REQUESTS;
    status = welcome(service);
    if (status != MUSTER_OK) {
        (void)mst_native_stream_fail(&service->stream, status, "no room for the welcome");
    }
    return status;
}

/* The last frame: why there will be no more. */
static muster_status goodbye(struct mst_native_service *service)
{
    const struct mst_reply message = {.status = MUSTER_EPROTO,
                                      .value = mst_slice_text(service->stream.reason)};
    size_t size;

    if (service->stream.dead == MUSTER_EPROTO) {
        (void)mst_native_stream_put(&service->stream, &mst_reply_fields, &message, &size);
    }
    return service->stream.dead;
}

/* A client that ignores the addresses takes it as a goodbye: it connects again, and its list of
 * addresses may have the right one. */
muster_status mst_native_service_send_on(struct mst_native_service *service, const char *why,
                                         struct mst_slice addresses)
{
    const struct mst_reply message = {.command = MST_OPEN,
                                      .status = MUSTER_EUNREACHABLE,
                                      .value = mst_slice_text(why),
                                      .addresses = addresses};
    size_t size;

    return mst_native_stream_put(&service->stream, &mst_reply_fields, &message, &size);
}

static muster_status refuse_request(struct mst_native_service *service,
                                    const struct mst_wrong *wrong, uint64_t id)
{
    char why[sizeof(service->stream.reason)];
    struct mst_text text = mst_text_in(why, sizeof(why));

    if (!service->stream.dead) {
        mst_wrong_say(&text, wrong);
        (void)mst_native_stream_fail(&service->stream, MUSTER_EPROTO, "request %" PRIu64 ": %s", id,
                                     why);
    }
    return goodbye(service);
}

static muster_status take_request(struct mst_native_service *service, struct mst_request *out)
{
    struct mst_slice payload;
    struct mst_wrong wrong;
    muster_status status = mst_native_stream_frame(&service->stream, &payload);

    if (status == MUSTER_MORE) {
        return status;
    }
    if (status == MUSTER_OK) {
        status =
            mst_native_stream_decode(&service->stream, &mst_request_fields, payload, out, &wrong);
    }
    if (status != MUSTER_OK) {
        return refuse_request(service, &wrong, out->id);
    }
    if (!wrong.unknown) {
        out->bytes = payload;
    }
    return status;
}

muster_status mst_native_service_next(struct mst_native_service *service, struct mst_request *out)
{
    muster_status status = service->stream.dead;

    if (status == MUSTER_OK && service->state == MST_NATIVE_PREAMBLE) {
        status = take_preamble(service);
    }
    if (status == MUSTER_OK && service->state == MST_NATIVE_HELLO) {
        status = take_hello(service);
    }
    if (status == MUSTER_OK) {
        status = take_request(service, out);
    }
    if (status == MUSTER_MORE && mst_native_stream_keep(&service->stream) != MUSTER_OK) {
        status = service->stream.dead;
    }
    return status;
}

void mst_native_service_again(struct mst_native_service *service)
{
    service->stream.taken = 0;
}

/* Only this call fails; its connection goes on. */
static muster_status answer_too_large(struct mst_native_service *service,
                                      const struct mst_reply *reply, size_t size)
{
    const struct mst_reply refusal = {
        .id = reply->id,
        .command = reply->command,
        .status = MUSTER_ELIMIT,
        .has_detail = true,
        .detail = {.limit = (int64_t)service->stream.frame_bytes_max,
                   .limit_kind = MST_LIMIT_FRAME_BYTES,
                   .asked = size},
    };

    return mst_native_stream_put(&service->stream, &mst_reply_fields, &refusal, &size);
}

muster_status mst_native_service_answer(struct mst_native_service *service,
                                        const struct mst_reply *reply)
{
    size_t size;
    muster_status status = mst_native_stream_put(&service->stream, &mst_reply_fields, reply, &size);

    return size > service->stream.frame_bytes_max ? answer_too_large(service, reply, size) : status;
}

void mst_native_service_free(struct mst_native_service *service)
{
    const struct mst_mem *mem;

    if (service) {
        mem = service->stream.mem;
        mst_native_stream_fini(&service->stream);
        mst_mem_release(mem, service);
    }
}

muster_status mst_native_service_new(struct mst_native_service **out,
                                     const struct mst_limits *limits, const struct mst_mem *mem)
{
    struct mst_native_service *service = mem->alloc(mem->ctx, sizeof(*service));

    if (!service) {
        return MUSTER_ENOMEM;
    }
    service->state = MST_NATIVE_PREAMBLE;
    service->key_bytes_max = limits->key_bytes_max;
    service->value_bytes_max = limits->value_bytes_max;
    service->contribution_bytes_max = limits->contribution_bytes_max;
    mst_native_stream_init(&service->stream, mem, (size_t)limits->frame_bytes_max,
                           (size_t)limits->output_bytes_max);
    *out = service;
    return MUSTER_OK;
}
