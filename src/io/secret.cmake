# SPDX-License-Identifier: Apache-2.0
# Who may connect: the secret, TLS over it, and the one parser of addresses. No libuv: the rank's
# library has it too. OpenSSL's headers only: the library is loaded when there is a secret.
find_path(MUSTER_OPENSSL_INCLUDE openssl/ssl.h REQUIRED)
mst_library(mst_secret
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/secret.c ${CMAKE_CURRENT_LIST_DIR}/tls.c
        ${CMAKE_CURRENT_LIST_DIR}/channel.c ${CMAKE_CURRENT_LIST_DIR}/address.c
    LINK mst_base Threads::Threads ${CMAKE_DL_LIBS})
