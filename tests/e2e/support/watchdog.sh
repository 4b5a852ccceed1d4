# Ends the control plane when the test process is gone, however it went: its end of the pipe then
# closes. Each line read is the list of the processes that live at present.
while read -r line; do pids=$line; done
[ -z "$pids" ] || kill -9 $pids 2>/dev/null
rm -rf "$1"
