#!/bin/sh
# Makes an authority, a certificate of the server and one for each client, unless they are there:
#
#   certificates.sh FOLDER SERVER[,NAME...] CLIENT...
#
# FOLDER gets ca.pem, and NAME.pem and NAME.key for the server and each client. SERVER is the server's
# host name; it may have others. All last a year. In the last month all are made anew. The authority's key is not kept, so
# that nobody can sign another one.
set -eu
umask 077

folder=$1 hosts=$2
server=${hosts%%,*}
shift 2
set -- "$server" "$@"
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
year=365 month=2592000

is_good() {
    for name; do
        [ -s "$folder/$name.key" ] || return 1
        openssl x509 -in "$folder/$name.pem" -noout -checkend "$month" > /dev/null 2>&1 || return 1
        openssl verify -CAfile "$folder/ca.pem" "$folder/$name.pem" > /dev/null 2>&1 || return 1
    done
    openssl x509 -in "$folder/ca.pem" -noout -checkend "$month" > /dev/null 2>&1
}

if is_good "$@"; then
    echo "certificates: those of $* are there"
    exit
fi

new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
cd "$new"

key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"; }

# The names of a certificate, and what it is for.
extensions() {
    echo "basicConstraints = critical, CA:FALSE"
    if [ "$1" = "$server" ]; then
        # A member shows it to other members too.
        echo "extendedKeyUsage = serverAuth, clientAuth"
        echo "subjectAltName = DNS:$(echo "$hosts" | sed 's/,/, DNS:/g'), DNS:localhost, IP:127.0.0.1"
    else
        echo "extendedKeyUsage = clientAuth"
        echo "subjectAltName = DNS:$1"
    fi
}

key ca
openssl req -x509 -new -key ca.key -days "$year" -subj "/CN=licorne compose" -out ca.pem
for name; do
    key "$name"
    openssl req -new -key "$name.key" -subj "/CN=$name" -out request
    extensions "$name" > wanted
    openssl x509 -req -in request -CA ca.pem -CAkey ca.key -CAcreateserial -days "$year" \
        -extfile wanted -out "$name.pem" 2> /dev/null
done
for name in "$@"; do
    mv "$name.key" "$name.pem" "$folder/"
done
# The last one: without it, and with an older one, the others count for nothing.
mv ca.pem "$folder/"
echo "certificates: made for $*"
