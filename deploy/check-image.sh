#!/bin/sh
# check-image.sh IMAGE: start a container as the README shows, store a session, and find it in a second container with
# the same volume.
set -eu
image=$1
url=http://127.0.0.1:4100
trap 'docker rm --force ash-check >/dev/null 2>&1 || true; docker volume rm ash-check >/dev/null 2>&1 || true' EXIT
start() {
    docker run --detach --init --name ash-check --publish 127.0.0.1:4100:4100 --volume ash-check:/data \
        --env ASH_ALLOW_UNAUTHENTICATED=1 "$image"
    curl --fail --silent --retry 30 --retry-delay 1 --retry-all-errors "$url/health/ready"
}
start
curl --fail --silent "$url/api/sessions" --header 'content-type: application/json' \
    --data '{"source": "claude", "externalId": "check"}'
docker stop ash-check
docker rm ash-check
start
curl --fail --silent "$url/api/sessions" | grep --quiet '"externalId":"check"'
