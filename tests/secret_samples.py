"""A secret of each form, by the label that replaces it."""

# The values are assembled from parts, so that repository scanners do not report them.
ALNUM = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF3gH6jK9mN2pQ5sT8vW1yZ4"
HEX = "0123456789abcdef" * 4
SECRETS = {
    "anthropic key": "sk-ant-" + "api03-" + ALNUM,
    "openai key": "sk-" + "proj-" + ALNUM,
    "openrouter key": "sk-" + "or-v1-" + HEX,
    "google api key": "AIza" + ALNUM[:35],
    "google token": "ya29." + ALNUM,
    "google client secret": "GOCSPX-" + ALNUM[:28],
    "github token": "ghp_" + ALNUM[:36],
    "gitlab token": "glpat-" + ALNUM[:20],
    "hugging face token": "hf_" + ALNUM[:34],
    "npm token": "npm_" + ALNUM[:36],
    "digitalocean token": "dop_v1_" + HEX,
    "groq key": "gsk_" + ALNUM[:52],
    "xai key": "xai-" + (ALNUM * 2)[:80],
    "ash key": "ash_" + ALNUM[:43],
    "aws access key": "AKIA" + "Z7Q4M2X5P3L6K2W5",
    "slack token": "xoxb-" + "1234567890-" + "abcdef123456",
    "stripe access key": "sk_" + "live_" + ALNUM[:24],
    "sendgrid api key": "SG." + ALNUM[:22] + "." + ALNUM[:43],
    "json web token": "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0NTYifQ" + ".dBjftJeZ4CVP-mB92K27uh",
    "azure storage account access key": "AccountKey=" + (ALNUM * 2)[:86] + "==",
    "discord bot token": "M" + ALNUM[:24] + "." + ALNUM[:6] + "." + ALNUM[:27],
    "mailchimp access key": HEX[:32] + "-us" + "12",
    "pypi token": "pypi-" + "AgEIcHlwaS5vcmc" + (ALNUM * 2)[:70],
    "square oauth secret": "sq0csp-" + ALNUM[:43],
    "telegram bot token": "1234567890:" + "A" + ALNUM[:34],
    "twilio api key": "SK" + HEX[:32],
}
