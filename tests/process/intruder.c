/* SPDX-License-Identifier: Apache-2.0 */

/* Who knows the secret and does not behave: a TLS 1.3 handshake as it should be, "in", and then
 * what it is told. "out" when the service has hung up. Never reads, unless it says so.
 *
 *   intruder PORT KEY rekey         asks for new keys without end
 *   intruder PORT KEY rekey-read    the same, and reads what comes
 *   intruder PORT KEY pipe          sends its stdin, then waits without reading until it is killed
 *   intruder PORT KEY goodbye       sends its stdin, says that it ends, keeps the socket, and reads
 *   intruder PORT KEY raw           sends its stdin outside of TLS, and reads */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { KEY_BYTES = 32 };

static unsigned char key[KEY_BYTES];

_Noreturn static void give_up(const char *what)
{
    (void)fprintf(stderr, "intruder: %s\n", what);
    exit(1);
}

static void say(const char *word)
{
    (void)puts(word);
    (void)fflush(stdout);
}

static int use_key(SSL *ssl, const EVP_MD *digest, const unsigned char **name, size_t *size,
                   SSL_SESSION **out)
{
    static const unsigned char suite[] = {0x13, 0x01};
    SSL_SESSION *session = SSL_SESSION_new();

    (void)digest;
    if (!session || SSL_SESSION_set1_master_key(session, key, sizeof key) != 1 ||
        SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, suite)) != 1 ||
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) != 1) {
        give_up("no session");
    }
    *name = (const unsigned char *)"muster";
    *size = strlen("muster");
    *out = session;
    return 1;
}

static int reach(const char *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)strtoul(port, NULL, 10)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        give_up("nobody there");
    }
    return fd;
}

static SSL *shake_hands(int fd)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    SSL *ssl;

    if (!ctx || SSL_CTX_set_ciphersuites(ctx, "TLS_AES_128_GCM_SHA256") != 1) {
        give_up("no context");
    }
    SSL_CTX_set_psk_use_session_callback(ctx, use_key);
    ssl = SSL_new(ctx);
    if (!ssl || SSL_set_fd(ssl, fd) != 1 || SSL_connect(ssl) != 1) {
        give_up("not let in");
    }
    SSL_CTX_free(ctx);
    return ssl;
}

/* Whatever is there, as it is; true: nothing more will come. */
static bool drop_input(int fd, int flags)
{
    char ignored[65536];

    return recv(fd, ignored, sizeof ignored, flags) == 0;
}

static void rekey(SSL *ssl, int fd, bool reads)
{
    bool over = false;

    while (!over && SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED) == 1 &&
           SSL_do_handshake(ssl) == 1) {
        over = reads && drop_input(fd, MSG_DONTWAIT);
    }
}

static void send_input(SSL *ssl, int fd, bool raw)
{
    char bytes[16384];
    ssize_t got;

    while ((got = read(STDIN_FILENO, bytes, sizeof bytes)) > 0) {
        if (raw ? write(fd, bytes, (size_t)got) != got : SSL_write(ssl, bytes, (int)got) != got) {
            return;
        }
    }
}

static void read_to_end(int fd)
{
    char ignored[65536];

    while (recv(fd, ignored, sizeof ignored, 0) > 0) {
    }
}

int main(int argument_count, char **arguments)
{
    const char *what = argument_count == 4 ? arguments[3] : "";
    SSL *ssl;
    int fd;

    if (argument_count != 4 || strlen(arguments[2]) != sizeof key * 2) {
        give_up("PORT KEY WHAT");
    }
    (void)signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < sizeof key; i++) {
        const char digits[3] = {arguments[2][2 * i], arguments[2][2 * i + 1], '\0'};

        key[i] = (unsigned char)strtoul(digits, NULL, 16);
    }
    fd = reach(arguments[1]);
    ssl = shake_hands(fd);
    say("in");
    if (strncmp(what, "rekey", 5) == 0) {
        rekey(ssl, fd, strcmp(what, "rekey-read") == 0);
    } else {
        send_input(ssl, fd, strcmp(what, "raw") == 0);
        if (strcmp(what, "pipe") == 0) {
            say("sent");
            (void)pause();
        } else if (strcmp(what, "goodbye") == 0) {
            (void)SSL_shutdown(ssl);
        }
        read_to_end(fd);
    }
    say("out");
    SSL_free(ssl);
    return 0;
}
