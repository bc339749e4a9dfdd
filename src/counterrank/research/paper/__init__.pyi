from counterrank.research.paper.figures import FIGURES as FIGURES
from counterrank.research.paper.runner import contenders as contenders
from counterrank.research.paper.runner import reproduce as reproduce
from counterrank.research.paper.runner import write_page as write_page
