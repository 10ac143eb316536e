# The CUDA backend: kernels/cuda and core/base/cuda compiled by nvcc for sm_80 and sm_90, or, without CUDA, functions that
# refuse. Either way the target dcp_cuda_backend.
set(DCP_HAS_CUDA OFF)
if(NOT DCP_WITH_CUDA MATCHES "^(ON|OFF|AUTO)$")
  message(FATAL_ERROR "DCP_WITH_CUDA is '${DCP_WITH_CUDA}', expected ON, OFF or AUTO")
endif()
if(DCP_SANITIZE AND DCP_WITH_CUDA STREQUAL "AUTO")
  set(DCP_WITH_CUDA OFF)
endif()
if(NOT DCP_WITH_CUDA STREQUAL "OFF")
  find_program(DCP_NVCC nvcc HINTS ENV CUDA_PATH ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES bin)
  if(DCP_NVCC)
    cmake_path(GET DCP_NVCC PARENT_PATH toolkit_bin)
    set(CUDAToolkit_ROOT ${toolkit_bin}/..)
    find_package(CUDAToolkit 13.0 QUIET)
    set(DCP_HAS_CUDA ${CUDAToolkit_FOUND})
  endif()
  set(missing "no CUDA toolkit of version 13.0 or newer on PATH, in CUDA_PATH or in /usr/local/cuda")
  if(NOT DCP_HAS_CUDA AND DCP_WITH_CUDA STREQUAL "ON")
    message(FATAL_ERROR "DCP_WITH_CUDA is ON, but there is ${missing}: install it, or configure with -DDCP_WITH_CUDA=OFF")
  elseif(NOT DCP_HAS_CUDA)
    message(STATUS "Building without CUDA: there is ${missing}")
  endif()
endif()

# Sources of the two folders, for nvcc here and for the emulator in tests/cuda_emu.
file(GLOB DCP_CUDA_KERNELS CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/cuda/*.cu)
file(GLOB DCP_CUDA_HOST_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/cuda/*.cpp
     ${PROJECT_SOURCE_DIR}/core/base/cuda/*.cpp)

if(NOT DCP_HAS_CUDA)
  file(GLOB absent_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/cuda/absent/*.cpp
       ${PROJECT_SOURCE_DIR}/core/base/cuda/absent/*.cpp)
  add_library(dcp_cuda_backend STATIC ${absent_sources})
  target_link_libraries(dcp_cuda_backend PUBLIC dcp_options dcp_base)
  return()
endif()

set(CMAKE_CUDA_COMPILER ${DCP_NVCC})
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES "80;90")
endif()
set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
if(DCP_CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
enable_language(CUDA)
# CMake 3.25 does not know that nvcc 13 has C++20.
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)

add_library(dcp_cuda_backend STATIC ${DCP_CUDA_KERNELS} ${DCP_CUDA_HOST_SOURCES})
# Warnings of the host compiler are errors in kernels too; -Wpedantic is not for the code that nvcc makes of them.
target_compile_options(dcp_cuda_backend PRIVATE
  $<$<COMPILE_LANGUAGE:CUDA>:-lineinfo -Xcompiler=-Wall,-Wextra,-Wshadow,-Wconversion,-Wno-missing-field-initializers>
  $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${DCP_WARNINGS_AS_ERRORS}>>:-Werror=all-warnings -Xcompiler=-Werror>)
target_compile_definitions(dcp_cuda_backend PRIVATE $<$<BOOL:${DCP_SYNC_LAUNCHES}>:DCP_SYNC_LAUNCHES>)
target_link_libraries(dcp_cuda_backend PUBLIC dcp_base PRIVATE CUDA::cudart)
