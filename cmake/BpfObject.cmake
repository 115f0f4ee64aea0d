# SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#
# add_bpf_skeleton(TARGET SOURCE)
#
# Compiles SOURCE (NAME.bpf.c) with clang's BPF target and makes NAME.skel.h of it. TARGET is an interface library that
# has the header on its include path. A depfile makes every header that the source reads a dependency, so that no
# skeleton is ever stale.

find_program(BPF_CLANG NAMES clang-19 clang REQUIRED)
find_program(BPFTOOL NAMES bpftool PATHS /usr/sbin REQUIRED)

# Where the distribution keeps asm/types.h, which the BPF target does not search by itself.
execute_process(
  COMMAND ${CMAKE_CXX_COMPILER} -print-multiarch
  OUTPUT_VARIABLE BPF_MULTIARCH OUTPUT_STRIP_TRAILING_WHITESPACE)

function(add_bpf_skeleton target source)
  cmake_path(GET source STEM stem) # hairpin.bpf.c -> hairpin
  set(object ${CMAKE_CURRENT_BINARY_DIR}/${stem}.bpf.o)
  set(skeleton ${CMAKE_CURRENT_BINARY_DIR}/${stem}.skel.h)
  add_custom_command(
    OUTPUT ${object}
    COMMAND ${BPF_CLANG} -target bpf -mcpu=v3 -O2 -g -std=gnu2x
            -Wall -Wextra -Wshadow -Wimplicit-int-conversion -Wenum-conversion -Wswitch -Werror
            -I${PROJECT_SOURCE_DIR} -isystem /usr/include/${BPF_MULTIARCH}
            -MD -MT ${object} -MF ${object}.d
            -c ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${object}
    DEPENDS ${source}
    DEPFILE ${object}.d
    COMMENT "BPF ${source}" VERBATIM)
  add_custom_command(
    OUTPUT ${skeleton}
    COMMAND sh -c "${BPFTOOL} gen skeleton ${object} name ${stem}_bpf > ${skeleton}"
    DEPENDS ${object}
    COMMENT "Skeleton ${stem}.skel.h" VERBATIM)
  add_custom_target(${target}_files DEPENDS ${skeleton})
  add_library(${target} INTERFACE)
  add_dependencies(${target} ${target}_files)
  target_include_directories(${target} SYSTEM INTERFACE ${CMAKE_CURRENT_BINARY_DIR})
endfunction()
