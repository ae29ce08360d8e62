"""The cost of stored usage at the public prices of the models' providers.

Importing this package loads no price data: `Prices.load` does.
"""

from ash_server.prices.costs import BANDS, Cost, PricedUsage, band_of
from ash_server.prices.prices import PriceFiles, Prices

__all__ = ["BANDS", "Cost", "PriceFiles", "PricedUsage", "Prices", "band_of"]
