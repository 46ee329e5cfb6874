# Address and undefined-behaviour sanitizers, built by clang so that its thread-safety analysis runs in the same build.
# cmake -C conf/presets/asan.cmake -S . -B .build/asan -G Ninja
set(CMAKE_C_COMPILER clang CACHE STRING "")
set(CMAKE_CXX_COMPILER clang++ CACHE STRING "")
set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O0 -g1" CACHE STRING "")
set(STOKER_SANITIZE "address,undefined" CACHE STRING "")
