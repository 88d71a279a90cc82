/* SPDX-License-Identifier: Apache-2.0 */
#include "native_link.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void *allocate(void *ctx, size_t size)
{
    (void)ctx;
    return malloc(size > 0 ? size : 1);
}

static void release(void *ctx, void *p)
{
    (void)ctx;
    free(p);
}

const struct mst_mem native_link_mem = {.alloc = allocate, .release = release};

void native_link_init(struct native_link *link, const struct mst_limits *limits)
{
    assert_int_equal(mst_native_service_new(&link->service, limits, &native_link_mem), MUSTER_OK);
    assert_int_equal(mst_native_client_new(&link->client, limits, &native_link_mem), MUSTER_OK);
}

void native_link_fini(struct native_link *link)
{
    mst_native_service_free(link->service);
    mst_native_client_free(link->client);
}

void native_link_open(struct native_link *link, const struct mst_limits *limits)
{
    struct mst_request request;
    struct mst_reply reply;

    native_link_init(link, limits);
    native_link_to_service(link);
    assert_int_equal(mst_native_service_next(link->service, &request), MUSTER_MORE);
    native_link_to_client(link);
    assert_int_equal(mst_native_client_next(link->client, &reply), MUSTER_MORE);
}

static unsigned char *copy(struct mst_slice bytes)
{
    unsigned char *p = malloc(bytes.size > 0 ? bytes.size : 1);

    assert_non_null(p);
    if (bytes.size > 0) {
        memcpy(p, bytes.data, bytes.size);
    }
    return p;
}

unsigned char *native_link_take_client(struct native_link *link, size_t *size_out)
{
    struct mst_slice output = mst_native_stream_output(&link->client->stream);
    unsigned char *bytes = copy(output);

    *size_out = output.size;
    mst_native_stream_written(&link->client->stream, output.size);
    return bytes;
}

unsigned char *native_link_take_service(struct native_link *link, size_t *size_out)
{
    struct mst_slice output = mst_native_stream_output(&link->service->stream);
    unsigned char *bytes = copy(output);

    *size_out = output.size;
    mst_native_stream_written(&link->service->stream, output.size);
    return bytes;
}

void native_link_to_service(struct native_link *link)
{
    size_t size;
    unsigned char *bytes = native_link_take_client(link, &size);

    assert_int_equal(mst_native_stream_feed(&link->service->stream, mst_slice_of(bytes, size)),
                     MUSTER_OK);
    free(bytes);
}

void native_link_to_client(struct native_link *link)
{
    size_t size;
    unsigned char *bytes = native_link_take_service(link, &size);

    assert_int_equal(mst_native_stream_feed(&link->client->stream, mst_slice_of(bytes, size)),
                     MUSTER_OK);
    free(bytes);
}
