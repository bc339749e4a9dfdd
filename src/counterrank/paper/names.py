"""The figures and tables by name, without loading anything."""

#: name: what it shows and where it stands in the paper (Kiyohara et al. 2023)
FIGURES = {
    "data-size": "MSE, bias and variance over the number of rankings (figure 3)",
    "slate-size": "over the length of the ranking (figure 4)",
    "behavior": "over the behaviour distribution delta (figure 5)",
    "reward-noise": "over the reward noise sigma (appendix)",
    "epsilon": "over the randomness of the evaluation policy (appendix)",
    "identifiability": "over the identifiability of behaviour (appendix)",
    "noise-data-size": "AIPS with bias errors .1, .3, .5 over the number of rankings (appendix)",
    "noise-slate-size": "AIPS with bias errors .1, .3, .5 over the length of the ranking (appendix)",
    "noise-behavior": "AIPS with bias errors .1, .3, .5 over delta (appendix)",
    "distribution-delta": "how delta changes the behaviours (appendix)",
    "distribution-lambda": "how lambda changes the behaviours (appendix)",
    "runtime-data-size": "run time over the number of rankings (appendix)",
    "runtime-slate-size": "run time over the length of the ranking (appendix)",
    "toy": "strategic variance reduction (table 2)",
    "real-world": "squared errors on an A/B log: CDF and CVaR (figure 6)",
}
