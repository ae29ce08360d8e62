FROM python:3.12-slim-bookworm AS build
WORKDIR /src
COPY requirements/build.txt requirements/server.txt requirements/
RUN python -m venv /opt/build \
    && /opt/build/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes --no-deps -r requirements/build.txt \
    && python -m venv /opt/ash \
    && /opt/ash/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes --no-deps -r requirements/server.txt
COPY pyproject.toml README.md LICENSE ./
COPY alembic alembic
COPY ash_client ash_client
COPY ash_shared ash_shared
COPY ash_server ash_server
COPY ash_stores ash_stores
RUN /opt/build/bin/pip wheel --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir /wheels . \
    && /opt/ash/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps /wheels/*.whl

FROM python:3.12-slim-bookworm
RUN useradd --system --uid 10001 --create-home ash && install --directory --owner ash --mode 700 /data
COPY --from=build /opt/ash /opt/ash
# Without ASH_DATABASE_URL, the embedded PostgreSQL keeps its files in /data, which is then a volume.
ENV PATH=/opt/ash/bin:$PATH PYTHONUNBUFFERED=1 ASH_HOME=/data
USER ash
EXPOSE 4100
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:4100/health/live', timeout=2)"]
# Listens on all addresses, and therefore refuses to start until the first key exists (`ash keys create`), unless
# ASH_ALLOW_UNAUTHENTICATED=1 states that access is restricted elsewhere.
CMD ["ash", "serve", "--host", "0.0.0.0", "--port", "4100"]
