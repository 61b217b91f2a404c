PRIMER = VASWANI_2017.replace(name="primer", source="So et al. 2021, the activation alone", activation="relu-squared")
PROFILES[PRIMER.name] = PRIMER
