// Files that are on the disk when the call returns, and not only in the system's memory.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <string_view>

namespace prorata {

// Makes or empties `file`, writes the parts one after the other and syncs. std::runtime_error names file and cause;
// what is then in the file is undefined, so write beside what must stay whole and rename.
void write_durably(const std::filesystem::path& file, std::initializer_list<std::string_view> parts);

// Renames a file or folder, which replaces what `to` names if that is no folder, and syncs the folder that both are in.
// std::runtime_error names both and the cause.
void rename_durably(const std::filesystem::path& from, const std::filesystem::path& to);

// What a file, or the names in a folder, are now is on the disk. std::runtime_error names it and the cause.
void sync_path(const std::filesystem::path& path);

}  // namespace prorata
