/* -x aggsortkey -x aggsortrev | fire /bin/one /bin/two /usr/bin/three /bin/one */
proc:proc_example::exec-success { @[basename(stringof(arg0))] = sum(strlen(stringof(arg0))); }
