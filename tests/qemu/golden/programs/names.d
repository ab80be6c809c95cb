/* -q | fire /bin/one /bin/two /usr/bin/three /bin/one */
proc:proc_example::exec-success { printf("[%s] [%s] [%s] [%s]\n", probeprov, probemod, probefunc, probename); }
