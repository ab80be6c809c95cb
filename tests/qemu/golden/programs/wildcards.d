/* | fire /bin/one /bin/two /usr/bin/three /bin/one */
proc:proc_*::exec-* { @[probename] = count(); }
