/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_NET_TLS_H
#define MST_NET_TLS_H

/* TLS 1.3 between processes that share a secret, and nothing else: an external pre-shared key with
 * an ephemeral Diffie-Hellman exchange (psk_dhe_ke), TLS_AES_128_GCM_SHA256, no certificates, no
 * tickets, no early data, nothing older. OpenSSL does it over memory BIOs; it is loaded when the
 * first context is made, so a program without a secret does not need it. No socket is touched here.
 *
 *   bytes of the socket --feed--> TLS --read--> plain bytes
 *   plain bytes        --write--> TLS --output, written--> bytes for the socket */

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"
#include "muster/status.h"
#include "net/secret.h"

/* What a handshake may feed at most. Ours takes less than a kilobyte each way. */
#define MST_TLS_HANDSHAKE_BYTES_MAX 16384u

/* The first byte of a TLS client. */
#define MST_TLS_FIRST_BYTE 0x16

enum mst_tls_side { MST_TLS_SERVICE = 1, MST_TLS_CLIENT };

struct mst_tls_context; /* what all connections of one side share; used by one thread at a time */
struct mst_tls;         /* one connection */

/* The secret is not kept, only a key derived from it. EINVAL: OpenSSL is missing or too old, and
 * `err` says what to install; ENOMEM. */
muster_status mst_tls_context_new(struct mst_tls_context **out, enum mst_tls_side side,
                                  const struct mst_secret *secret, struct muster_error *err);
void mst_tls_context_free(struct mst_tls_context *context); /* after its connections; NULL: no-op */

/* A client's first bytes are in the output of a new one. ENOMEM. The context outlives it. */
muster_status mst_tls_new(struct mst_tls **out, struct mst_tls_context *context);
void mst_tls_free(struct mst_tls *tls);

/* Bytes came from the socket, in any pieces. OK; EPROTO: the peer is not trusted or its bytes were
 * damaged, and the reason says why: send the output, which has an alert for the peer, and hang up.
 * ENOMEM. */
muster_status mst_tls_feed(struct mst_tls *tls, struct mst_slice in);

/* Decrypts into `room`. OK: `*size_out` bytes; MORE: there is no whole record; ECANCELLED: the peer
 * said that it ends; EPROTO as above. Call it until it is not OK. */
muster_status mst_tls_read(struct mst_tls *tls, void *room, size_t size, size_t *size_out);

/* Encrypts all of `plain` behind the output. MORE: the handshake is not finished, nothing was
 * taken; ENOMEM or EPROTO: hang up. */
muster_status mst_tls_write(struct mst_tls *tls, struct mst_slice plain);

/* Says to the peer that nothing follows. Once; the output then holds it. */
void mst_tls_close(struct mst_tls *tls);

struct mst_slice mst_tls_output(const struct mst_tls *tls);
void mst_tls_written(struct mst_tls *tls, size_t size);

/* The peer has shown that it knows the secret. */
bool mst_tls_trusted(const struct mst_tls *tls);

/* After an error: one line. Never NULL. */
const char *mst_tls_reason(const struct mst_tls *tls);

/* The peer closed the connection before the handshake was finished: what that says. */
const char *mst_tls_cut_short(enum mst_tls_side side);

/* The answer of a service without a secret to a TLS client, before it hangs up: the alert from
 * which a client of ours knows that. */
struct mst_slice mst_tls_refusal(void);

#endif
