/* -q -x nspec=8 | fire /bin/one /bin/two /usr/bin/three /bin/one */
proc:proc_example::exec-success { self->s = speculation(); }
proc:proc_example::exec-success { speculate(self->s); printf("speculated %s\n", stringof(arg0)); }
proc:proc_example::exec-success /strlen(stringof(arg0)) > 8/ { commit(self->s); self->s = 0; }
proc:proc_example::exec-success /self->s/ { discard(self->s); self->s = 0; }
