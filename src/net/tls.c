/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "net/tls.h"

#include "base/fail.h"

#include <dlfcn.h>
#include <limits.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libssl.so.3"
#define KEY_BYTES 32
#define REASON_ROOM 160
#define REKEYS_MAX 256u  /* of one connection, in all: clients of ours never ask */
#define KEPT_BYTES 32768 /* an empty buffer that once held more than this is given back */

/* Not secret: which key is meant. Another one could be added beside it to change secrets without a
 * restart. */
static const char identity[] = "muster";
static const char purpose[] = "muster tls 1.3 external psk, version 1";

/* ---- OpenSSL, found at run time ---- */

#define OPENSSL_FUNCTIONS(X)                                                                       \
    X(BIO_ctrl)                                                                                    \
    X(BIO_new)                                                                                     \
    X(BIO_read)                                                                                    \
    X(BIO_s_mem)                                                                                   \
    X(BIO_write)                                                                                   \
    X(ERR_clear_error)                                                                             \
    X(ERR_peek_last_error)                                                                         \
    X(ERR_reason_error_string)                                                                     \
    X(EVP_KDF_CTX_free)                                                                            \
    X(EVP_KDF_CTX_new)                                                                             \
    X(EVP_KDF_derive)                                                                              \
    X(EVP_KDF_fetch)                                                                               \
    X(EVP_KDF_free)                                                                                \
    X(OPENSSL_init_ssl)                                                                            \
    X(OSSL_PARAM_construct_end)                                                                    \
    X(OSSL_PARAM_construct_octet_string)                                                           \
    X(OSSL_PARAM_construct_utf8_string)                                                            \
    X(SSL_CIPHER_find)                                                                             \
    X(SSL_CTX_ctrl)                                                                                \
    X(SSL_CTX_free)                                                                                \
    X(SSL_CTX_new)                                                                                 \
    X(SSL_CTX_set_ciphersuites)                                                                    \
    X(SSL_CTX_set_msg_callback)                                                                    \
    X(SSL_CTX_set_num_tickets)                                                                     \
    X(SSL_CTX_set_options)                                                                         \
    X(SSL_CTX_set_psk_find_session_callback)                                                       \
    X(SSL_CTX_set_psk_use_session_callback)                                                        \
    X(SSL_CTX_set_verify)                                                                          \
    X(SSL_SESSION_free)                                                                            \
    X(SSL_SESSION_new)                                                                             \
    X(SSL_SESSION_set1_master_key)                                                                 \
    X(SSL_SESSION_set_cipher)                                                                      \
    X(SSL_SESSION_set_protocol_version)                                                            \
    X(SSL_do_handshake)                                                                            \
    X(SSL_free)                                                                                    \
    X(SSL_get_error)                                                                               \
    X(SSL_get_ex_data)                                                                             \
    X(SSL_new)                                                                                     \
    X(SSL_read_ex)                                                                                 \
    X(SSL_session_reused)                                                                          \
    X(SSL_set0_rbio)                                                                               \
    X(SSL_set0_wbio)                                                                               \
    X(SSL_set_accept_state)                                                                        \
    X(SSL_set_connect_state)                                                                       \
    X(SSL_set_ex_data)                                                                             \
    X(SSL_shutdown)                                                                                \
    X(SSL_version)                                                                                 \
    X(SSL_write_ex)                                                                                \
    X(TLS_method)

struct openssl {
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a name that is declared cannot stand in them. */
#define X(function) __typeof__(&(function)) function;
    OPENSSL_FUNCTIONS(X)
#undef X
};

static const struct {
    const char *name;
    size_t offset;
} functions[] = {
#define X(function) {#function, offsetof(struct openssl, function)},
    OPENSSL_FUNCTIONS(X)
#undef X
};

static struct openssl ssl;
static char load_error[256]; /* "": it is there */
static pthread_once_t loaded = PTHREAD_ONCE_INIT;

/* Never unloaded. The library's own clean-up at exit is left out: it would pull the tables from
 * under a thread of ours that is still at work while the process ends. */
static void load(void)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

    if (!library) {
        (void)snprintf(load_error, sizeof load_error,
                       "a secret needs OpenSSL 3, which cannot be loaded (%s): install the "
                       "package libssl3 or openssl-libs",
                       dlerror());
        return;
    }
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        void *address = dlsym(library, functions[i].name);

        if (!address) {
            (void)snprintf(load_error, sizeof load_error,
                           "a secret needs OpenSSL 3: " LIBRARY " has no %s", functions[i].name);
            return;
        }
        memcpy((unsigned char *)&ssl + functions[i].offset, &address, sizeof address);
    }
    if (ssl.OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL) != 1) {
        (void)snprintf(load_error, sizeof load_error, "OpenSSL cannot be initialised");
    }
}

/* ---- the shared part ---- */

struct mst_tls_context {
    enum mst_tls_side side;
    SSL_CTX *ctx;
    unsigned char key[KEY_BYTES];
    unsigned char scrap[KEPT_BYTES]; /* what was sent goes here, to leave the output's BIO */
};

struct mst_tls {
    struct mst_tls_context *context;
    SSL *ssl;
    BIO *in, *out;  /* the ssl's own */
    size_t in_most; /* they ever held */
    size_t out_most;
    size_t fed; /* before it was trusted */
    unsigned rekeys;
    bool trusted;
    bool dead;
    bool closed;   /* we have said so */
    bool stranger; /* the peer names no key of ours */
    char reason[REASON_ROOM];
};

/* HKDF-SHA256 (RFC 5869), without a salt. */
static bool derive(unsigned char key[KEY_BYTES], const struct mst_secret *secret)
{
    char digest[] = "SHA256", info[sizeof purpose];
    unsigned char bytes[MST_SECRET_BYTES_MAX];
    EVP_KDF *kdf = ssl.EVP_KDF_fetch(NULL, "HKDF", NULL);
    EVP_KDF_CTX *ctx = kdf ? ssl.EVP_KDF_CTX_new(kdf) : NULL;
    OSSL_PARAM parameters[4];
    bool good;

    memcpy(info, purpose, sizeof purpose);
    memcpy(bytes, secret->bytes, secret->size);
    parameters[0] = ssl.OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0);
    parameters[1] = ssl.OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, bytes, secret->size);
    parameters[2] =
        ssl.OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info, sizeof info - 1);
    parameters[3] = ssl.OSSL_PARAM_construct_end();
    good = ctx && ssl.EVP_KDF_derive(ctx, key, KEY_BYTES, parameters) == 1;
    explicit_bzero(bytes, sizeof bytes);
    ssl.EVP_KDF_CTX_free(ctx);
    ssl.EVP_KDF_free(kdf);
    return good;
}

static SSL_SESSION *session_of(const struct mst_tls *tls)
{
    static const unsigned char suite[] = {0x13, 0x01}; /* TLS_AES_128_GCM_SHA256 */
    const SSL_CIPHER *cipher = ssl.SSL_CIPHER_find(tls->ssl, suite);
    SSL_SESSION *session = ssl.SSL_SESSION_new();

    if (session && cipher &&
        ssl.SSL_SESSION_set1_master_key(session, tls->context->key, KEY_BYTES) == 1 &&
        ssl.SSL_SESSION_set_cipher(session, cipher) == 1 &&
        ssl.SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1) {
        return session;
    }
    ssl.SSL_SESSION_free(session);
    return NULL;
}

static int find_key(SSL *connection, const unsigned char *name, size_t size, SSL_SESSION **out)
{
    struct mst_tls *tls = ssl.SSL_get_ex_data(connection, 0);

    *out = NULL;
    tls->stranger = size != sizeof identity - 1 || memcmp(name, identity, size) != 0;
    if (tls->stranger) {
        return 1; /* goes on without a key, and ends for want of a certificate */
    }
    *out = session_of(tls);
    return *out != NULL;
}

static int use_key(SSL *connection, const EVP_MD *digest, const unsigned char **name, size_t *size,
                   SSL_SESSION **out)
{
    (void)digest; /* one suite, one digest */
    *out = session_of(ssl.SSL_get_ex_data(connection, 0));
    *name = (const unsigned char *)identity;
    *size = sizeof identity - 1;
    return *out != NULL;
}

/* New keys cost what thousands of bytes cost, and can be asked for in a few. */
static void on_message(int ours, int version, int type, const void *bytes, size_t size,
                       SSL *connection, void *unused)
{
    struct mst_tls *tls = ssl.SSL_get_ex_data(connection, 0);

    (void)version;
    (void)unused;
    if (!ours && type == SSL3_RT_HANDSHAKE && size > 0 &&
        *(const unsigned char *)bytes == SSL3_MT_KEY_UPDATE) {
        tls->rekeys++;
    }
}

/* A client that took a certificate from a stranger would tell it everything: none is good. */
static int no_certificate(int good, X509_STORE_CTX *store)
{
    (void)good;
    (void)store;
    return 0;
}

static long control(SSL_CTX *ctx, int command, long number, const char *text)
{
    char copy[64] = "";

    (void)snprintf(copy, sizeof copy, "%s", text ? text : "");
    return ssl.SSL_CTX_ctrl(ctx, command, number, text ? copy : NULL);
}

static bool set_up(SSL_CTX *ctx, enum mst_tls_side side)
{
    ssl.SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
    control(ctx, SSL_CTRL_MODE, SSL_MODE_RELEASE_BUFFERS, NULL);
    control(ctx, SSL_CTRL_CLEAR_MODE, SSL_MODE_AUTO_RETRY, NULL); /* one record at a time */
    ssl.SSL_CTX_set_msg_callback(ctx, on_message);
    control(ctx, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, NULL);
    if (side == MST_TLS_SERVICE) {
        ssl.SSL_CTX_set_psk_find_session_callback(ctx, find_key);
    } else {
        ssl.SSL_CTX_set_psk_use_session_callback(ctx, use_key);
        ssl.SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, no_certificate);
    }
    return control(ctx, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION, NULL) == 1 &&
           control(ctx, SSL_CTRL_SET_MAX_PROTO_VERSION, TLS1_3_VERSION, NULL) == 1 &&
           control(ctx, SSL_CTRL_SET_GROUPS_LIST, 0, "X25519:P-256") == 1 &&
           ssl.SSL_CTX_set_ciphersuites(ctx, "TLS_AES_128_GCM_SHA256") == 1 &&
           ssl.SSL_CTX_set_num_tickets(ctx, 0) == 1;
}

muster_status mst_tls_context_new(struct mst_tls_context **out, enum mst_tls_side side,
                                  const struct mst_secret *secret, struct muster_error *err)
{
    struct mst_tls_context *context;

    (void)pthread_once(&loaded, load);
    if (load_error[0] != '\0') {
        return mst_fail(err, MUSTER_EINVAL, 0, "%s", load_error);
    }
    context = calloc(1, sizeof *context);
    if (!context) {
        return mst_fail(err, MUSTER_ENOMEM, 0, "no memory for TLS");
    }
    context->side = side;
    context->ctx = ssl.SSL_CTX_new(ssl.TLS_method());
    if (!context->ctx || !set_up(context->ctx, side) || !derive(context->key, secret)) {
        const char *why = ssl.ERR_reason_error_string(ssl.ERR_peek_last_error());

        ssl.ERR_clear_error();
        mst_tls_context_free(context);
        return mst_fail(err, MUSTER_EINVAL, 0,
                        "OpenSSL does not do TLS 1.3 with a pre-shared key here: %s",
                        why ? why : "no reason is given");
    }
    *out = context;
    return MUSTER_OK;
}

void mst_tls_context_free(struct mst_tls_context *context)
{
    if (context) {
        ssl.SSL_CTX_free(context->ctx);
        explicit_bzero(context->key, sizeof context->key);
        free(context);
    }
}

/* ---- what went wrong ---- */

__attribute__((format(printf, 3, 4))) static muster_status
die(struct mst_tls *tls, muster_status status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(tls->reason, sizeof tls->reason, format, args);
    va_end(args);
    tls->dead = true;
    ssl.ERR_clear_error();
    return status;
}

#define ALERT(number) (SSL_AD_REASON_OFFSET + (number))

/* What the client is to make of it. NULL: nothing is known of this one. */
static const char *told_client(int reason)
{
    switch (reason) {
    case ALERT(SSL_AD_DECRYPT_ERROR):
    case ALERT(SSL_AD_ILLEGAL_PARAMETER):
    case ALERT(SSL_AD_UNKNOWN_PSK_IDENTITY):
        return "wrong secret: the service has another one";
    case ALERT(SSL_AD_PROTOCOL_VERSION):
        return "the service speaks no TLS there: --secret-file is not set there";
    case ALERT(SSL_AD_HANDSHAKE_FAILURE):
        return "it takes no secret: a TLS server, but no muster service";
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
        return "the peer speaks no TLS: is it a muster service with --secret-file?";
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
        return "it offers a certificate and does not know the secret: no muster service, or not "
               "this one";
    default:
        return NULL;
    }
}

static const char *told_service(const struct mst_tls *tls, int reason)
{
    switch (reason) {
    case SSL_R_BINDER_DOES_NOT_VERIFY:
        return "wrong secret";
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_VERSION_TOO_LOW:
        return "speaks no TLS 1.3, and nothing older is spoken here";
    case SSL_R_NO_SHARED_CIPHER:
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
    case SSL_R_NO_SUITABLE_KEY_SHARE:
    case SSL_R_MISSING_SIGALGS_EXTENSION:
        return tls->stranger ? "speaks TLS with the name of another secret"
                             : "speaks TLS without a secret, or with a suite that is not spoken "
                               "here";
    default:
        return NULL;
    }
}

/* After a call that failed for good. */
static muster_status broken(struct mst_tls *tls)
{
    unsigned long code = ssl.ERR_peek_last_error();
    int reason = ERR_GET_REASON(code);
    const char *words = NULL;

    if (ERR_GET_LIB(code) == ERR_LIB_SSL && !tls->trusted) {
        words =
            tls->context->side == MST_TLS_CLIENT ? told_client(reason) : told_service(tls, reason);
    }
    if (reason == ERR_R_MALLOC_FAILURE) {
        return die(tls, MUSTER_ENOMEM, "out of memory");
    }
    if (words) {
        return die(tls, MUSTER_EPROTO, "%s", words);
    }
    words = ssl.ERR_reason_error_string(code);
    return die(tls, MUSTER_EPROTO, "TLS: %s", words ? words : "broken");
}

const char *mst_tls_reason(const struct mst_tls *tls)
{
    return tls->reason;
}

const char *mst_tls_cut_short(enum mst_tls_side side)
{
    return side == MST_TLS_CLIENT
               ? "closed during the TLS handshake: is it a muster service with --secret-file?"
               : "closed during the TLS handshake";
}

/* Of a service without a secret no version of TLS is to be had, so that is what it says: a fatal
 * alert, protocol_version. */
struct mst_slice mst_tls_refusal(void)
{
    static const unsigned char record[] = {
        0x15, 0x03, 0x03, 0x00, 0x02, 2, SSL_AD_PROTOCOL_VERSION};

    return mst_slice_of(record, sizeof record);
}

/* ---- one connection ---- */

static bool set_buffers(struct mst_tls *tls)
{
    tls->in = ssl.BIO_new(ssl.BIO_s_mem());
    tls->out = ssl.BIO_new(ssl.BIO_s_mem());
    if (tls->in) {
        ssl.SSL_set0_rbio(tls->ssl, tls->in);
    }
    if (tls->out) {
        ssl.SSL_set0_wbio(tls->ssl, tls->out);
    }
    return tls->in && tls->out;
}

static muster_status shake_hands(struct mst_tls *tls)
{
    int code;

    ssl.ERR_clear_error();
    code = ssl.SSL_do_handshake(tls->ssl);
    if (code != 1) {
        return ssl.SSL_get_error(tls->ssl, code) == SSL_ERROR_WANT_READ ? MUSTER_OK : broken(tls);
    }
    /* Without certificates there is no other way to here than the key; still, it is asked. */
    if (!ssl.SSL_session_reused(tls->ssl) || ssl.SSL_version(tls->ssl) != TLS1_3_VERSION) {
        return die(tls, MUSTER_EPROTO, "TLS without the secret");
    }
    tls->trusted = true;
    return MUSTER_OK;
}

muster_status mst_tls_new(struct mst_tls **out, struct mst_tls_context *context)
{
    struct mst_tls *tls = calloc(1, sizeof *tls);

    if (!tls) {
        return MUSTER_ENOMEM;
    }
    tls->context = context;
    tls->ssl = ssl.SSL_new(context->ctx);
    if (!tls->ssl || !set_buffers(tls) || ssl.SSL_set_ex_data(tls->ssl, 0, tls) != 1) {
        mst_tls_free(tls);
        return MUSTER_ENOMEM;
    }
    if (context->side == MST_TLS_SERVICE) {
        ssl.SSL_set_accept_state(tls->ssl);
    } else {
        ssl.SSL_set_connect_state(tls->ssl);
        if (shake_hands(tls) != MUSTER_OK) {
            mst_tls_free(tls);
            return MUSTER_ENOMEM;
        }
    }
    *out = tls;
    return MUSTER_OK;
}

void mst_tls_free(struct mst_tls *tls)
{
    if (tls) {
        ssl.SSL_free(tls->ssl);
        free(tls);
    }
}

/* A buffer does not shrink by itself, and thousands of connections are idle most of the time. */
static void rest(BIO **bio, size_t *most, SSL *connection, void (*set)(SSL *, BIO *))
{
    BIO *fresh;

    if (*most <= KEPT_BYTES || ssl.BIO_ctrl(*bio, BIO_CTRL_PENDING, 0, NULL) > 0) {
        return;
    }
    fresh = ssl.BIO_new(ssl.BIO_s_mem());
    if (fresh) {
        set(connection, fresh); /* frees the old one */
        *bio = fresh;
        *most = 0;
    }
}

muster_status mst_tls_feed(struct mst_tls *tls, struct mst_slice in)
{
    size_t held;

    if (tls->dead) {
        return MUSTER_EPROTO;
    }
    if (!tls->trusted) {
        tls->fed += in.size;
        if (tls->fed > MST_TLS_HANDSHAKE_BYTES_MAX) {
            return die(tls, MUSTER_EPROTO, "a TLS handshake of more than %u bytes",
                       MST_TLS_HANDSHAKE_BYTES_MAX);
        }
    }
    if (in.size > INT32_MAX || ssl.BIO_write(tls->in, in.data, (int)in.size) != (int)in.size) {
        return die(tls, MUSTER_ENOMEM, "out of memory");
    }
    held = (size_t)ssl.BIO_ctrl(tls->in, BIO_CTRL_PENDING, 0, NULL);
    tls->in_most = held > tls->in_most ? held : tls->in_most;
    return tls->trusted ? MUSTER_OK : shake_hands(tls);
}

muster_status mst_tls_read(struct mst_tls *tls, void *room, size_t size, size_t *size_out)
{
    long before, after = LONG_MAX;
    int error;

    if (tls->dead) {
        return MUSTER_EPROTO;
    }
    if (!tls->trusted) {
        return MUSTER_MORE;
    }
    do {
        before = after;
        ssl.ERR_clear_error();
        if (ssl.SSL_read_ex(tls->ssl, room, size, size_out) == 1) {
            return MUSTER_OK;
        }
        error = ssl.SSL_get_error(tls->ssl, 0);
        if (tls->rekeys > REKEYS_MAX) {
            return die(tls, MUSTER_EPROTO, "asks for new keys again and again");
        }
        after = ssl.BIO_ctrl(tls->in, BIO_CTRL_PENDING, 0, NULL);
        /* A record that held no bytes for us was taken, and there are more. */
    } while (error == SSL_ERROR_WANT_READ && after > 0 && after < before);
    switch (error) {
    case SSL_ERROR_WANT_READ:
        rest(&tls->in, &tls->in_most, tls->ssl, ssl.SSL_set0_rbio);
        return MUSTER_MORE;
    case SSL_ERROR_ZERO_RETURN:
        return MUSTER_ECANCELLED;
    default:
        return broken(tls);
    }
}

muster_status mst_tls_write(struct mst_tls *tls, struct mst_slice plain)
{
    size_t wrote = 0;

    if (tls->dead) {
        return MUSTER_EPROTO;
    }
    if (!tls->trusted) {
        return MUSTER_MORE;
    }
    ssl.ERR_clear_error();
    if (plain.size > 0 &&
        (ssl.SSL_write_ex(tls->ssl, plain.data, plain.size, &wrote) != 1 || wrote != plain.size)) {
        return broken(tls); /* memory takes everything: it cannot have been "later" */
    }
    return MUSTER_OK;
}

void mst_tls_close(struct mst_tls *tls)
{
    if (tls->trusted && !tls->dead && !tls->closed) {
        tls->closed = true;
        (void)ssl.SSL_shutdown(tls->ssl);
        ssl.ERR_clear_error();
    }
}

struct mst_slice mst_tls_output(const struct mst_tls *tls)
{
    char *bytes = NULL;
    long size = ssl.BIO_ctrl(tls->out, BIO_CTRL_INFO, 0, &bytes);

    return mst_slice_of(bytes, size > 0 ? (size_t)size : 0);
}

void mst_tls_written(struct mst_tls *tls, size_t size)
{
    size_t held = mst_tls_output(tls).size;

    tls->out_most = held > tls->out_most ? held : tls->out_most;
    while (size > 0) {
        size_t part = size < KEPT_BYTES ? size : KEPT_BYTES;

        (void)ssl.BIO_read(tls->out, tls->context->scrap, (int)part);
        size -= part;
    }
    rest(&tls->out, &tls->out_most, tls->ssl, ssl.SSL_set0_wbio);
}

bool mst_tls_trusted(const struct mst_tls *tls)
{
    return tls->trusted;
}
