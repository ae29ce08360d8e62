"""The cost of stored usage at the public prices of the models' providers.

Importing this package loads no price data: `Prices.load` does.
"""

from ash_server.prices.costs import BANDS, REASONS, Cost, PricedUsage, Reason, band_of
from ash_server.prices.prices import PriceFiles, Prices

__all__ = ["BANDS", "REASONS", "Cost", "PriceFiles", "PricedUsage", "Prices", "Reason", "band_of"]
