# The kit's own byte relay, spoken to in chat completions.
case $1 in
info) echo "direct=1"; echo "version=kit" ;;
install) ;;
start) exec "$BENCH_BIN/floor-proxy" --mode tcp --port "$2" --upstream "http://127.0.0.1:$3" ;;
esac
