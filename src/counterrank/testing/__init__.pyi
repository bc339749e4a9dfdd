from counterrank.testing.estimators import check_estimator as check_estimator
from counterrank.testing.estimators import check_interval as check_interval
from counterrank.testing.estimators import check_mse_estimate as check_mse_estimate
from counterrank.testing.estimators import check_source as check_source
from counterrank.testing.policies import check_policy as check_policy
from counterrank.testing.spaces import Space as Space
from counterrank.testing.spaces import exact_log as exact_log
from counterrank.testing.spaces import random_log as random_log
