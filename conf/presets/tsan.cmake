# Data-race detector; clang, so that the thread-safety analysis is on as well.
# cmake -C conf/presets/tsan.cmake -S . -B .build/tsan -G Ninja
set(CMAKE_C_COMPILER clang CACHE STRING "")
set(CMAKE_CXX_COMPILER clang++ CACHE STRING "")
set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O0 -g1" CACHE STRING "")
set(STOKER_SANITIZE "thread" CACHE STRING "")
