#!/bin/sh
# Makes the certificates of this folder anew.
set -eu
cd "$(dirname "$0")"
key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"; }
key ca
openssl req -x509 -new -key ca.key -days 36500 -subj "/CN=test CA" -out ca.pem
sign() {
    key "$1"
    openssl req -new -key "$1.key" -subj "/CN=$1" -out "$1.csr"
    printf '%s\n' "$2" > ext
    openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days 36500 -extfile ext -out "$1.pem"
    rm "$1.csr" ext
}
sign server "subjectAltName=DNS:localhost,IP:127.0.0.1"
sign rm "subjectAltName=URI:spiffe://test/rm"
sign operator "basicConstraints=CA:FALSE"
rm ca.srl ca.key
# Of nobody but itself.
key stranger
openssl req -x509 -new -key stranger.key -days 36500 -subj "/CN=stranger" -out stranger.pem
# With alternative names of other kinds: beside one that counts, and alone.
directory() {
    key "$1"
    printf '[req]\ndistinguished_name=name\n[name]\n[names]\nsubjectAltName=%s\n[entry]\nCN=operator\n' "$2" > config
    openssl req -x509 -new -key "$1.key" -days 36500 -subj "/O=$1/CN=operator" -config config -extensions names -out "$1.pem"
    rm config
}
directory directory "dirName:entry,URI:spiffe://test/rm,otherName:1.2.3.4;UTF8:operator"
directory directory-only "dirName:entry"
