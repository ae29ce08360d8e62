from ash_server.errors import AshError


class PricesError(AshError):
    status, code, title = 500, "invalid_prices", "A file of prices is invalid."
