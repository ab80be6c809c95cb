provider typed {
    probe start(float f);
};
