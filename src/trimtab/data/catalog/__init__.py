"""The paper's 15 sets, in the layouts that are on people's disks."""
