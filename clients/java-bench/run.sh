#!/bin/sh
# Prints what an ID costs with the Java client and with others, and how many requests a process sends.
# RAINDROP names the service's binary. ROUNDS and SECONDS make it longer or shorter.
set -eu

cd "$(dirname "$0")/../.."
. tests/functions.sh

need_maven
need_service

cd clients/java-bench
mvn --batch-mode --no-transfer-progress --quiet -Dstyle.color=never compile >&2
version=$(java -XshowSettings:properties -version 2>&1 | sed -n 's/^ *java.runtime.version = //p')
echo "Java: $version, $(nproc) cores, load $(cut -d ' ' -f 1 /proc/loadavg), $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)"
echo
classes=target/classes:$(cat target/classpath)
java -cp "$classes" org.example.raindrop.bench.Cost
echo
java -cp "$classes" org.example.raindrop.bench.Requests "$RAINDROP"
