# SPDX-License-Identifier: Apache-2.0
# The libraries that muster is compiled with. Those that are missing are named all at once, with Debian's
# names of what has them.
set(missing "")
set(packages "")
macro(look_for found name package)
    if(NOT ${found})
        list(APPEND missing "${name}")
        list(APPEND packages ${package})
    endif()
endmacro()

find_package(PkgConfig QUIET)
look_for(PKG_CONFIG_FOUND pkg-config pkg-config)
foreach(pair libuv:libuv1-dev jansson:libjansson-dev libmicrohttpd:libmicrohttpd-dev
        libnghttp2:libnghttp2-dev zlib:zlib1g-dev
        libcurl:libcurl4-openssl-dev)
    string(REPLACE ":" ";" pair ${pair})
    list(GET pair 0 name)
    list(GET pair 1 package)
    if(PKG_CONFIG_FOUND)
        pkg_check_modules(${name} QUIET IMPORTED_TARGET ${name})
    endif()
    look_for(${name}_FOUND ${name} ${package})
endforeach()
find_path(MUSTER_OPENSSL_INCLUDE openssl/ssl.h)
look_for(MUSTER_OPENSSL_INCLUDE openssl libssl-dev)
if(SKBUILD) # pip, which has a python3 that need not have its headers
    execute_process(COMMAND ${Python3_EXECUTABLE} -c
        "import sysconfig; print(sysconfig.get_path('include'), end='')" OUTPUT_VARIABLE folder)
    find_file(MUSTER_PYTHON_H Python.h PATHS ${folder} NO_DEFAULT_PATH)
    look_for(MUSTER_PYTHON_H Python.h python3-dev)
endif()
if(missing)
    list(JOIN missing ", " missing)
    list(JOIN packages " " packages)
    # What begins with a space is not broken into lines.
    message(FATAL_ERROR " muster cannot be built: not found: ${missing}; on Debian: apt-get install ${packages}")
endif()
