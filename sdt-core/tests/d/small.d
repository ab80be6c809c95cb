provider small { probe hit(); };
